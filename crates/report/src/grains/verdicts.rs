//! What is known of the fastest design at each place.

use results::ResultFile;
use results::statistics::Interval;

use super::{Grain, Keys, Value, columns};
use crate::answer;

pub(super) fn verdicts(keys: &Keys<'_>, results: &[&ResultFile]) -> Grain {
    let mut named = columns::named(&["plan"]);
    named.extend(keys.axis_columns());
    let own = ["verdict", "best", "rival", "ratio", "ratio_low", "ratio_high", "interval", "says"];
    named.extend(columns::named(&own));
    let mut grain = Grain::new("verdicts", "a point at which designs are compared", named);
    let text = |text: &str| Value::Text(text.to_owned());
    for result in results {
        for place in answer::verdicts(result) {
            let mut row = vec![text(&result.name)];
            row.extend(keys.axis_values(&place.axes));
            let interval = place.against.interval;
            let end =
                |of: fn(Interval) -> f64| interval.map_or(Value::Empty, |found| Value::Number(of(found)));
            row.extend([text(place.word), text(&place.best), text(&place.rival)]);
            row.extend([Value::Number(place.against.ratio), end(|of| of.low), end(|of| of.high)]);
            row.push(interval.map_or(Value::Empty, |of| text(of.coverage.as_str())));
            row.push(text(&place.sentence));
            grain.rows.push(row);
        }
    }
    grain
}
