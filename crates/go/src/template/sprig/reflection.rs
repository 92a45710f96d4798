//! Types and kinds.

use crate::template::functions::{Function, Type, kind_name};
use crate::template::value::Value;

const ANY: &[Type] = &[Type::Any];
const TEXT_ANY: &[Type] = &[Type::Text, Type::Any];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("deepEqual", &[Type::Any, Type::Any], |call| {
        let (left, right) = (call.value(0).clone(), call.value(1).clone());
        Ok(Value::Bool(call.deep_equals(&left, &right)?))
    }),
    Function::new("kindIs", TEXT_ANY, |call| Ok(Value::Bool(*call.text(0) == *kind_name(call.value(1))))),
    Function::new("kindOf", ANY, |call| Ok(Value::text(kind_name(call.value(0))))),
    Function::new("typeIs", TEXT_ANY, |call| Ok(Value::Bool(*call.text(0) == *call.value(1).type_name()))),
    Function::new("typeIsLike", TEXT_ANY, |call| {
        let (wanted, found) = (call.text(0).to_str(), call.value(1).type_name());
        Ok(Value::Bool(*wanted == *found || found.strip_prefix('*') == Some(&wanted)))
    }),
    Function::new("typeOf", ANY, |call| Ok(Value::text(call.value(0).type_name()))),
];
