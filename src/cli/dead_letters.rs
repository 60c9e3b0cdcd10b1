//! The messages that could not be delivered, as `history --dead` shows them.

use super::{
    failure::Failure,
    messages::{DeliveryWords, FROM_TO, TEXT, beginning_of_text, route, short_id},
    moment,
    print::Out,
    table::Column,
};
use protocol::relay::MessageRow;
use terminal::frame::Origin;

/// Prints rows of dead letters as a table.
pub(super) fn print(out: &mut Out, rows: Vec<Vec<String>>) -> Result<(), Failure> {
    let columns =
        [Column::whole("DIED"), Column::whole("ID"), FROM_TO, Column::cut("WHY", 12), TEXT];
    out.of_others(Origin::Others, |out| out.table(&columns, rows, "no dead letters"))
}

/// Returns the row of a dead letter.
pub(super) fn row(message: &MessageRow<'_>) -> Vec<String> {
    let reason = DeliveryWords::of(message).reason.unwrap_or_default();
    vec![
        moment::short(message.delivery.ended.unwrap_or(message.taken)),
        short_id(&message.id),
        route(message),
        reason.to_owned(),
        beginning_of_text(message),
    ]
}
