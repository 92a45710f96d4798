//! Texts.
use crate::template::functions::{Function, Type};
use crate::template::value::Text;
pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("upper", &[Type::Text], |call| {
        let t = call.text(0).to_str().to_uppercase();
        call.answer_text(Text::from(t))
    }),
    Function::new("quote", &[], |call| {
        let t = crate::template::quote::quote(call.bytes(0));
        call.answer_text(Text::from(t))
    })
    .and_more(Type::Any),
];
