//! Outcomes of calls: the codes of gRPC, and what HTTP makes of them (API-P25).

/// A code of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// It went well.
    Ok,
    /// The caller went away.
    Canceled,
    /// Anything else.
    Unknown,
    /// The request is wrong.
    InvalidArgument,
    /// There was not enough time.
    DeadlineExceeded,
    /// It does not exist.
    NotFound,
    /// It exists already.
    AlreadyExists,
    /// The caller may not.
    PermissionDenied,
    /// Too much was asked for.
    ResourceExhausted,
    /// Not in the present state.
    FailedPrecondition,
    /// Somebody else was faster.
    Aborted,
    /// Outside of what is permitted.
    OutOfRange,
    /// There is no such method.
    Unimplemented,
    /// A bug of ours.
    Internal,
    /// Somebody who is needed does not answer.
    Unavailable,
    /// Data is lost.
    DataLoss,
    /// Nobody knows who the caller is.
    Unauthenticated,
}

impl Code {
    /// All of them, by number.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The number on the wire.
    pub fn number(self) -> u8 {
        Self::ALL.iter().zip(0_u8..).find(|(code, _)| **code == self).map_or(2, |(_, number)| number)
    }

    /// The code of a number; what has none is unknown.
    pub fn of_number(number: i64) -> Self {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at).copied()).unwrap_or(Self::Unknown)
    }

    /// The name, as metrics and logs have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Canceled => "Canceled",
            Self::Unknown => "Unknown",
            Self::InvalidArgument => "InvalidArgument",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Aborted => "Aborted",
            Self::OutOfRange => "OutOfRange",
            Self::Unimplemented => "Unimplemented",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
            Self::DataLoss => "DataLoss",
            Self::Unauthenticated => "Unauthenticated",
        }
    }

    /// The status of HTTP.
    pub fn http(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Canceled => 408,
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => 400,
            Self::DeadlineExceeded => 504,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Aborted => 409,
            Self::PermissionDenied => 403,
            Self::ResourceExhausted => 429,
            Self::Unimplemented => 501,
            Self::Unknown | Self::Internal | Self::DataLoss => 500,
            Self::Unavailable => 503,
            Self::Unauthenticated => 401,
        }
    }
}

/// The text of an HTTP status, as Go has it.
pub fn http_text(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        409 => "Conflict",
        429 => "Too Many Requests",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_p25_codes_have_the_numbers_of_grpc_and_statuses_of_http() {
        let pairs: Vec<(u8, u16)> = Code::ALL.iter().map(|code| (code.number(), code.http())).collect();
        let expected = [200, 408, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];
        assert_eq!(pairs, (0..).zip(expected).collect::<Vec<_>>());
        for code in Code::ALL {
            assert_eq!(Code::of_number(i64::from(code.number())), code);
        }
        for number in [-1, 17, i64::MAX] {
            assert_eq!(Code::of_number(number), Code::Unknown);
        }
    }
}
