//! The fields of Parquet's directory and of its pages' headers, by number and type
//! (<https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>).
//!
//! The decoder reads a field that it knows as what the format says it is, whatever the file says. A field that it does
//! not know it passes over as what the file says. So each field that the decoder reads must stand here; one that is
//! missing here is taken for one that it does not know either.

use crate::thrift::Fields;
use crate::thrift::Kind::{Binary, Boolean, Byte, Double, I16, I32, I64, List, Struct};

/// `FileMetaData`: the directory.
pub(crate) const DIRECTORY: Fields = &[
    (1, I32),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Binary),
    (7, List(&Struct(COLUMN_ORDER))),
    (9, Binary),
];

/// `PageHeader`. An enumeration is a number of 32 bits.
pub(crate) const PAGE: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, Struct(STATISTICS))])),
    (6, Struct(NONE)),
    (7, Struct(&[(1, I32), (2, I32), (3, Boolean)])),
    (8, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, I32), (6, I32), (7, Boolean), (8, Struct(STATISTICS))])),
];

const NONE: Fields = &[];

const SCHEMA_ELEMENT: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Binary),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Struct(LOGICAL_TYPE)),
];

/// A union: the field that is there says which type. Most say no more.
const LOGICAL_TYPE: Fields = &[
    (1, Struct(NONE)),
    (2, Struct(NONE)),
    (3, Struct(NONE)),
    (4, Struct(NONE)),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, Struct(NONE)),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, Byte), (2, Boolean)])),
    (11, Struct(NONE)),
    (12, Struct(NONE)),
    (13, Struct(NONE)),
    (14, Struct(NONE)),
    (15, Struct(NONE)),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, I32)])),
    (19, Struct(NONE)),
];

/// Whether in UTC, and a union of units.
const TIME: Fields = &[(1, Boolean), (2, Struct(&[(1, Struct(NONE)), (2, Struct(NONE)), (3, Struct(NONE))]))];

const ROW_GROUP: Fields = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, I64),
    (3, I64),
    (4, List(&Struct(&[(1, I32), (2, Boolean), (3, Boolean)]))),
    (5, I64),
    (6, I64),
    (7, I16),
];

const COLUMN_CHUNK: Fields =
    &[(1, Binary), (2, I64), (3, Struct(COLUMN_METADATA)), (4, I64), (5, I32), (6, I64), (7, I32), (9, Binary)];

const COLUMN_METADATA: Fields = &[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Binary)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&Struct(KEY_VALUE))),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))])),
    (17, Struct(&[(1, Struct(BOUNDING_BOX)), (2, List(&I32))])),
];

const STATISTICS: Fields =
    &[(1, Binary), (2, Binary), (3, I64), (4, I64), (5, Binary), (6, Binary), (7, Boolean), (8, Boolean), (9, I64)];

const BOUNDING_BOX: Fields =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];

const KEY_VALUE: Fields = &[(1, Binary), (2, Binary)];

/// A union that says no more.
const COLUMN_ORDER: Fields = &[(1, Struct(NONE)), (2, Struct(NONE)), (3, Struct(NONE))];
