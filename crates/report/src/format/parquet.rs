//! Parquet: a tidy table with types, in one row group.
//!
//! A cell that the CSV leaves empty is null. Text is UTF-8, counts and times are unsigned 64-bit integers, rates and means are
//! doubles. Written without the arrow crates, which would be larger than all of Weir.

use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type as Field;

use super::{Format, RenderError};
use crate::Report;
use crate::grains::{self, Column, Grain, Type, Value};

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
        table(&grains::samples(report))
    }
}

/// The table as a file.
pub(super) fn table(grain: &Grain) -> Result<Vec<u8>, RenderError> {
    let fields = grain.columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Field::group_type_builder("weir").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_created_by("weir".to_owned()).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (place, head) in grain.columns.iter().enumerate() {
        let cells = grain.rows.iter().map(|row| &row[place]);
        match head.of {
            Type::Text => column::<ByteArrayType>(&mut group, cells, |value| match value {
                Value::Text(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            })?,
            // The bits of an unsigned number, as the format keeps them.
            Type::Count => column::<Int64Type>(&mut group, cells, |value| match value {
                Value::Count(count) => Some(count.cast_signed()),
                _ => None,
            })?,
            Type::Number => column::<DoubleType>(&mut group, cells, |value| match value {
                Value::Number(number) => Some(*number),
                _ => None,
            })?,
            Type::Flag => column::<BoolType>(&mut group, cells, |value| match value {
                Value::Flag(flag) => Some(*flag),
                _ => None,
            })?,
        }
    }
    group.close()?;
    Ok(writer.into_inner()?)
}

fn field(column: &Column) -> Result<Arc<Field>, ParquetError> {
    let (physical, logical) = match column.of {
        Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Type::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Type::Number => (Physical::DOUBLE, None),
        Type::Flag => (Physical::BOOLEAN, None),
    };
    let field = Field::primitive_type_builder(&column.name, physical).with_logical_type(logical);
    Ok(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?))
}

/// Writes a column: the cells that are there, and for every row whether it has one.
fn column<'r, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    cells: impl Iterator<Item = &'r Value>,
    read: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let cells: Vec<Option<T::T>> = cells.map(read).collect();
    let there: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.into_iter().flatten().collect();
    let mut column = group.next_column()?.expect("there is a column for each head");
    column.typed::<T>().write_batch(&values, Some(&there), None)?;
    column.close()
}
