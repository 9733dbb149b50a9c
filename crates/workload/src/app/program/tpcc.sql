-- TPC-C for PostgreSQL: one warehouse and its five transactions as functions, for `weir bench app/tpcc --program` and
-- tests/apps/tpcc.sh. Written from the standard; a New-Order takes its items in ascending order, so that no two wait for
-- each other.
\set QUIET on
create or replace function txt(n int) returns text language sql as
  $$ select substr(md5(random()::text) || md5(random()::text) || md5(random()::text) || repeat(md5(random()::text), 14), 1, n) $$;
create or replace function rnd(a int, b int) returns int language sql as $$ select a + floor(random() * (b - a + 1))::int $$;
create or replace function nurand(a int, c int, x int, y int) returns int language sql as
  $$ select ((rnd(0, a) | rnd(x, y)) + c) % (y - x + 1) + x $$;
create table warehouse (w_id int primary key, w_name text, w_street text, w_zip text, w_tax numeric(4,4), w_ytd numeric(12,2));
create table district (d_w_id int, d_id int, d_name text, d_street text, d_zip text, d_tax numeric(4,4), d_ytd numeric(12,2),
  d_next_o_id int, primary key (d_w_id, d_id));
create table customer (c_w_id int, c_d_id int, c_id int, c_first text, c_last text, c_street text, c_phone text, c_since timestamp,
  c_credit text, c_credit_lim numeric(12,2), c_discount numeric(4,4), c_balance numeric(12,2), c_ytd_payment numeric(12,2),
  c_payment_cnt int, c_delivery_cnt int, c_data text);
create table history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6,2),
  h_data text);
create table new_order (no_w_id int, no_d_id int, no_o_id int);
create table orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int,
  o_all_local int);
create table order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int,
  ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6,2), ol_dist_info text);
create table item (i_id int primary key, i_im_id int, i_name text, i_price numeric(5,2), i_data text);
create table stock (s_w_id int, s_i_id int, s_quantity int, s_ytd int, s_order_cnt int, s_remote_cnt int, s_dist text, s_data text);
insert into item select i, rnd(1, 10000), txt(rnd(14, 24)), rnd(100, 10000) / 100.0, txt(rnd(26, 50))
  from generate_series(1, 100000) i;
insert into warehouse values (1, txt(10), txt(60), txt(11), 0.1, 300000);
insert into district select 1, d, txt(10), txt(60), txt(11), 0.1, 30000, 3001 from generate_series(1, 10) d;
insert into customer select 1, d, c, txt(rnd(8, 16)), 'NAME' || case when c <= 1000 then c - 1 else nurand(255, 7, 0, 999) end,
  txt(71), txt(16), now(), case when random() < 0.1 then 'BC' else 'GC' end, 50000, 0.1, -10, 10, 1, 0, txt(rnd(300, 500))
  from generate_series(1, 10) d, generate_series(1, 3000) c;
insert into history select c, d, 1, d, 1, now(), 10, txt(rnd(12, 24)) from generate_series(1, 10) d, generate_series(1, 3000) c;
insert into orders select 1, d, o, (o * 1013) % 3000 + 1, now(), case when o <= 2100 then rnd(1, 10) end, rnd(5, 15), 1
  from generate_series(1, 10) d, generate_series(1, 3000) o;
insert into order_line select 1, o_d_id, o_id, n, rnd(1, 100000), 1, now(), 5, 0, txt(24)
  from orders, generate_series(1, o_ol_cnt) n;
insert into new_order select 1, d, o from generate_series(1, 10) d, generate_series(2101, 3000) o;
insert into stock select 1, i, rnd(10, 100), 0, 0, 0, txt(240), txt(rnd(26, 50)) from generate_series(1, 100000) i;
alter table customer add primary key (c_w_id, c_d_id, c_id);
alter table orders add primary key (o_w_id, o_d_id, o_id);
alter table new_order add primary key (no_w_id, no_d_id, no_o_id);
alter table order_line add primary key (ol_w_id, ol_d_id, ol_o_id, ol_number);
alter table stock add primary key (s_w_id, s_i_id);
create index customer_name on customer (c_w_id, c_d_id, c_last, c_first);
create index orders_customer on orders (o_w_id, o_d_id, o_c_id, o_id);

create function new_order() returns void language plpgsql as $$
declare d int := rnd(1, 10); c int := nurand(1023, 259, 1, 3000); n int := rnd(5, 15); o int; i int; l int := 0; q int;
  price numeric; s record;
begin
  perform w_tax from warehouse where w_id = 1;
  update district set d_next_o_id = d_next_o_id + 1 where d_w_id = 1 and d_id = d returning d_next_o_id - 1 into o;
  perform c_discount from customer where c_w_id = 1 and c_d_id = d and c_id = c;
  insert into orders values (1, d, o, c, now(), null, n, 1);
  insert into new_order values (1, d, o);
  for i in select nurand(8191, 7911, 1, 100000) from generate_series(1, n) order by 1 loop
    l := l + 1; q := rnd(1, 10);
    select i_price into price from item where i_id = i;
    select * into s from stock where s_w_id = 1 and s_i_id = i for update;
    update stock set s_quantity = case when s.s_quantity >= q + 10 then s.s_quantity - q else s.s_quantity - q + 91 end,
      s_ytd = s_ytd + q, s_order_cnt = s_order_cnt + 1 where s_w_id = 1 and s_i_id = i;
    insert into order_line values (1, d, o, l, i, 1, null, q, q * price, substr(s.s_dist, d * 24 - 23, 24));
  end loop;
end $$;
create function choose(d int) returns int language plpgsql as $$
declare ids int[];
begin
  if random() >= 0.6 then return nurand(1023, 259, 1, 3000); end if;
  select array_agg(c_id order by c_first) into ids from customer
    where c_w_id = 1 and c_d_id = d and c_last = 'NAME' || nurand(255, 90, 0, 999);
  return ids[(array_length(ids, 1) + 1) / 2];
end $$;
create function payment() returns void language plpgsql as $$
declare d int := rnd(1, 10); c int := choose(d); a numeric := rnd(100, 500000) / 100.0;
begin
  update warehouse set w_ytd = w_ytd + a where w_id = 1;
  update district set d_ytd = d_ytd + a where d_w_id = 1 and d_id = d;
  update customer set c_balance = c_balance - a, c_ytd_payment = c_ytd_payment + a, c_payment_cnt = c_payment_cnt + 1,
    c_data = case when c_credit = 'BC' then substr(c || ' ' || d || ' ' || a || ' ' || c_data, 1, 500) else c_data end
    where c_w_id = 1 and c_d_id = d and c_id = c;
  insert into history values (c, d, 1, d, 1, now(), a, txt(24));
end $$;
create function order_status() returns void language plpgsql as $$
declare d int := rnd(1, 10); c int := choose(d); o int;
begin
  perform c_balance from customer where c_w_id = 1 and c_d_id = d and c_id = c;
  select o_id into o from orders where o_w_id = 1 and o_d_id = d and o_c_id = c order by o_id desc limit 1;
  perform count(ol_amount) from order_line where ol_w_id = 1 and ol_d_id = d and ol_o_id = o;
end $$;
create function delivery() returns void language plpgsql as $$
declare o int; c int; a numeric;
begin
  for d in 1..10 loop
    select no_o_id into o from new_order where no_w_id = 1 and no_d_id = d order by no_o_id limit 1 for update skip locked;
    continue when o is null;
    delete from new_order where no_w_id = 1 and no_d_id = d and no_o_id = o;
    update orders set o_carrier_id = 3 where o_w_id = 1 and o_d_id = d and o_id = o returning o_c_id into c;
    update order_line set ol_delivery_d = now() where ol_w_id = 1 and ol_d_id = d and ol_o_id = o;
    select sum(ol_amount) into a from order_line where ol_w_id = 1 and ol_d_id = d and ol_o_id = o;
    update customer set c_balance = c_balance + a, c_delivery_cnt = c_delivery_cnt + 1 where c_w_id = 1 and c_d_id = d and c_id = c;
  end loop;
end $$;
create function stock_level() returns void language plpgsql as $$
declare o int;
begin
  select d_next_o_id into o from district where d_w_id = 1 and d_id = 1;
  perform count(distinct s_i_id) from order_line join stock on s_w_id = 1 and s_i_id = ol_i_id and s_quantity < 15
    where ol_w_id = 1 and ol_d_id = 1 and ol_o_id between o - 20 and o - 1;
end $$;
vacuum analyze;
checkpoint;
