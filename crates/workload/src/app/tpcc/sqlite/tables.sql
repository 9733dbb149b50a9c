-- TPC-C's tables for SQLite, as TPC-C 5.11, clause 1.3, has them; money is in cents, a time in nanoseconds.
create table warehouse (w_id integer primary key, w_name text, w_streets text, w_state_zip text, w_tax integer, w_ytd integer);
create table district (d_w_id integer, d_id integer, d_name text, d_streets text, d_state_zip text, d_tax integer, d_ytd integer,
  d_next_o_id integer, primary key (d_w_id, d_id)) without rowid;
create table customer (c_w_id integer, c_d_id integer, c_id integer, c_first text, c_middle text, c_last text, c_streets text,
  c_state_zip text, c_phone text, c_since integer, c_credit text, c_credit_lim integer, c_discount integer, c_balance integer,
  c_ytd_payment integer, c_payment_cnt integer, c_delivery_cnt integer, c_data text, primary key (c_w_id, c_d_id, c_id))
  without rowid;
create table history (h_c_w_id integer, h_c_d_id integer, h_c_id integer, h_w_id integer, h_d_id integer, h_date integer,
  h_amount integer, h_data text);
create table new_order (no_w_id integer, no_d_id integer, no_o_id integer, primary key (no_w_id, no_d_id, no_o_id)) without rowid;
create table orders (o_w_id integer, o_d_id integer, o_id integer, o_c_id integer, o_entry_d integer, o_carrier_id integer,
  o_ol_cnt integer, o_all_local integer, primary key (o_w_id, o_d_id, o_id)) without rowid;
create table order_line (ol_w_id integer, ol_d_id integer, ol_o_id integer, ol_number integer, ol_i_id integer,
  ol_supply_w_id integer, ol_delivery_d integer, ol_quantity integer, ol_amount integer, ol_dist_info text,
  primary key (ol_w_id, ol_d_id, ol_o_id, ol_number)) without rowid;
create table item (i_id integer primary key, i_im_id integer, i_name text, i_price integer, i_data text);
create table stock (s_w_id integer, s_i_id integer, s_quantity integer, s_ytd integer, s_order_cnt integer, s_remote_cnt integer,
  s_dists text, s_data text, primary key (s_w_id, s_i_id)) without rowid;
create index customer_name on customer (c_w_id, c_d_id, c_last, c_first);
create index orders_customer on orders (o_w_id, o_d_id, o_c_id, o_id);
