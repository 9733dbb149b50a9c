//! Parquet: the rows and columns of the CSV, with types, in one row group.
//!
//! A cell that the CSV leaves empty is null. Text is UTF-8, counts and times are unsigned 64-bit integers, rates and means are
//! doubles. Written without the arrow crates, which would be larger than all of Weir.

use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;

use super::{Format, RenderError, csv};
use crate::Report;

pub(super) struct Parquet;

impl Format for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn summary(&self) -> &'static str {
        "the rows of the CSV with types, for data frames"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        let rows: Vec<csv::Row> =
            report.sections.iter().flat_map(|section| csv::rows(&section.results)).collect();
        let heads = csv::heads(&rows);
        let fields = heads.iter().map(|head| field(head)).collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("weir").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_created_by("weir".to_owned()).build();
        let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for head in &heads {
            let cells = rows.iter().map(|row| row.get(head).map(String::as_str));
            match Kind::of(head) {
                Kind::Text => column::<ByteArrayType>(&mut group, cells, |text| Some(ByteArray::from(text)))?,
                Kind::Count => column::<Int64Type>(&mut group, cells, count)?,
                Kind::Number => column::<DoubleType>(&mut group, cells, |text| text.parse().ok())?,
                Kind::Flag => column::<BoolType>(&mut group, cells, |text| text.parse().ok())?,
            }
        }
        group.close()?;
        Ok(writer.into_inner()?)
    }
}

/// What the cells of a column are.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Count,
    Number,
    Flag,
}

impl Kind {
    fn of(head: &str) -> Self {
        match head {
            "plan" | "clock" | "machine" | "operation" | "notes" | "failed" | "host_noise" | "series_ops" => {
                Self::Text
            }
            "partial" => Self::Flag,
            "throughput_ops_per_s" | "host_drift_percent" => Self::Number,
            mean if mean.ends_with("_mean_ns") || mean.ends_with("_stddev_ns") => Self::Number,
            axis if axis.starts_with("axis.") => Self::Text,
            _ => Self::Count,
        }
    }
}

/// The bits of an unsigned number, as the format keeps them.
fn count(text: &str) -> Option<i64> {
    text.parse::<u64>().ok().map(u64::cast_signed)
}

fn field(head: &str) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match Kind::of(head) {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Number => (Physical::DOUBLE, None),
        Kind::Flag => (Physical::BOOLEAN, None),
    };
    let field = Type::primitive_type_builder(head, physical).with_logical_type(logical);
    Ok(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?))
}

/// Writes a column: the cells that are there, and for every row whether it has one.
fn column<'r, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    cells: impl Iterator<Item = Option<&'r str>>,
    read: impl Fn(&str) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let cells: Vec<Option<T::T>> = cells.map(|cell| cell.and_then(&read)).collect();
    let there: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    let mut column = group.next_column()?.expect("there is a column for each head");
    column.typed::<T>().write_batch(&values, Some(&there), None)?;
    column.close()
}
