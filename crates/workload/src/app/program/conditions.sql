-- The consistency conditions 1 to 4 of TPC-C (3.3.2.1 to 3.3.2.4) on the tables of tpcc.sql: a row for each that does not hold,
-- with the number of the condition, the place, and what is wrong there.
select 1, 'warehouse ' || w_id, 'was paid ' || w_ytd || ', its districts ' || sum(d_ytd)
  from warehouse join district on d_w_id = w_id group by w_id having w_ytd <> sum(d_ytd);
select 2, 'district ' || d_id, 'gives the number ' || d_next_o_id || ' next, the last order is ' || max(o_id)
    || ', the last that is not delivered ' || coalesce(max(no_o_id)::text, 'none')
  from district join orders on o_w_id = d_w_id and o_d_id = d_id
    left join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
  group by d_w_id, d_id having max(o_id) <> d_next_o_id - 1 or max(no_o_id) <> d_next_o_id - 1;
select 3, 'district ' || no_d_id, 'has ' || count(*) || ' orders that are not delivered between ' || min(no_o_id)
    || ' and ' || max(no_o_id)
  from new_order group by no_w_id, no_d_id having max(no_o_id) - min(no_o_id) + 1 <> count(*);
select 4, 'district ' || d_id, 'has orders of ' || lines || ' lines, and there are ' || found from district,
    lateral (select sum(o_ol_cnt) lines from orders where o_w_id = d_w_id and o_d_id = d_id) o,
    lateral (select count(*) found from order_line where ol_w_id = d_w_id and ol_d_id = d_id) l
  where lines <> found;
