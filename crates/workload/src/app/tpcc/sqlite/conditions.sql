-- The consistency conditions 1 to 4 of TPC-C (3.3.2.1 to 3.3.2.4): a row for each that does not hold, with the number of the
-- condition and what is wrong.
select 1, 'warehouse ' || w_id || ' was paid ' || w_ytd || ', its districts ' || paid
  from warehouse join (select d_w_id, sum(d_ytd) paid from district group by d_w_id) on d_w_id = w_id where w_ytd <> paid
union all
select 2, 'district ' || d_id || ' of warehouse ' || d_w_id || ' gives the number ' || d_next_o_id || ' next, the last order is '
    || last || ', the last that is not delivered ' || coalesce(waiting, 'none')
  from district
    join (select o_w_id, o_d_id, max(o_id) last from orders group by o_w_id, o_d_id) on o_w_id = d_w_id and o_d_id = d_id
    left join (select no_w_id, no_d_id, max(no_o_id) waiting from new_order group by no_w_id, no_d_id)
      on no_w_id = d_w_id and no_d_id = d_id
  where last <> d_next_o_id - 1 or waiting <> d_next_o_id - 1
union all
select 3, 'district ' || no_d_id || ' of warehouse ' || no_w_id || ' has ' || count(*)
    || ' orders that are not delivered between ' || min(no_o_id) || ' and ' || max(no_o_id)
  from new_order group by no_w_id, no_d_id having max(no_o_id) - min(no_o_id) + 1 <> count(*)
union all
select 4, 'orders of district ' || o_d_id || ' of warehouse ' || o_w_id || ' have ' || wanted || ' lines, and there are '
    || coalesce(found, 0)
  from (select o_w_id, o_d_id, sum(o_ol_cnt) wanted from orders group by o_w_id, o_d_id)
    left join (select ol_w_id, ol_d_id, count(*) found from order_line group by ol_w_id, ol_d_id)
      on ol_w_id = o_w_id and ol_d_id = o_d_id
  where wanted <> coalesce(found, 0);
