//! Hashes, passwords, keys and certificates.
//!
//! Hashes, AES and scrypt are computed here; what needs more comes from the environment's [`Keys`].

use super::encoding::{base_64_decoded, illegal_base_64};
use super::scrypt;
use crate::template::environment::{Certificate, CertificateRequest, KeyError, KeyKind, Keys};
use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type};
use crate::template::value::{Kind, List, Record, RecordType, Text, Unsigned, Value};
use aes::Aes256;
use aes::cipher::{Block, BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use sha2::{Sha256, Sha512};

const TEXT: &[Type] = &[Type::Text];
const TWO_TEXTS: &[Type] = &[Type::Text, Type::Text];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("adler32sum", TEXT, |call| {
        let text = adler_32(call.bytes(0)).to_string();
        call.answer_text(text)
    }),
    Function::new("bcrypt", TEXT, |call| {
        let text = hashed_password(call, 0)?;
        call.answer_text(text)
    }),
    Function::new("buildCustomCert", TWO_TEXTS, custom_certificate),
    Function::new("decryptAES", TWO_TEXTS, decrypt),
    Function::new(
        "derivePassword",
        &[Type::Uint(Unsigned::Uint32), Type::Text, Type::Text, Type::Text, Type::Text],
        derive_password,
    ),
    Function::new("encryptAES", TWO_TEXTS, encrypt),
    Function::new("genCA", &[Type::Text, Type::INT], |call| {
        certificate(call, Shape { addresses: false, signer: false, key: None })
    }),
    Function::new("genCAWithKey", &[Type::Text, Type::INT, Type::Text], |call| {
        certificate(call, Shape { addresses: false, signer: false, key: Some(2) })
    }),
    Function::new("genPrivateKey", TEXT, private_key),
    Function::new("genSelfSignedCert", &[Type::Text, Type::LIST, Type::LIST, Type::INT], |call| {
        certificate(call, Shape { addresses: true, signer: false, key: None })
    }),
    Function::new(
        "genSelfSignedCertWithKey",
        &[Type::Text, Type::LIST, Type::LIST, Type::INT, Type::Text],
        |call| certificate(call, Shape { addresses: true, signer: false, key: Some(4) }),
    ),
    Function::new(
        "genSignedCert",
        &[Type::Text, Type::LIST, Type::LIST, Type::INT, Type::Struct(CERTIFICATE.name)],
        |call| certificate(call, Shape { addresses: true, signer: true, key: None }),
    ),
    Function::new(
        "genSignedCertWithKey",
        &[Type::Text, Type::LIST, Type::LIST, Type::INT, Type::Struct(CERTIFICATE.name), Type::Text],
        |call| certificate(call, Shape { addresses: true, signer: true, key: Some(5) }),
    ),
    Function::new("htpasswd", TWO_TEXTS, |call| {
        let user = call.text(0).to_str().into_owned();
        if user.contains(':') {
            return call.answer_text(format!("invalid username: {user}"));
        }
        let hash = hashed_password(call, 1)?;
        call.answer_text(format!("{user}:{hash}"))
    }),
    Function::new("randBytes", &[Type::INT], |call| {
        let count = usize::try_from(call.int(0));
        let count = count.map_err(|_negative| Failure::new("runtime error: makeslice: len out of range"))?;
        call.makes_text(count.saturating_mul(2))?;
        let mut bytes = vec![0; count];
        call.environment().random(&mut bytes);
        call.answer_text(STANDARD.encode(bytes))
    }),
    Function::new("sha1sum", TEXT, |call| {
        let text = hexadecimal(&Sha1::digest(call.bytes(0)));
        call.answer_text(text)
    }),
    Function::new("sha256sum", TEXT, |call| {
        let text = hexadecimal(&Sha256::digest(call.bytes(0)));
        call.answer_text(text)
    }),
    Function::new("sha512sum", TEXT, |call| {
        let text = hexadecimal(&Sha512::digest(call.bytes(0)));
        call.answer_text(text)
    }),
    Function::new("uuidv4", &[], |call| {
        let mut bytes = [0; 16];
        call.environment().random(&mut bytes);
        let number = u128::from_be_bytes(bytes);
        // Version 4 of the usual variant.
        let number = number & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let digits = format!("{number:032x}");
        let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
        let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
        call.answer_text(parts.join("-"))
    }),
];

/// What certificates are in templates.
static CERTIFICATE: RecordType = RecordType {
    name: "sprig.certificate",
    kind: Kind::Struct,
    fields: &["Cert", "Key"],
    methods: &[],
    print: None,
};

fn hexadecimal(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            out.extend(char::from_digit(u32::from(half), 16));
        }
    }
    out
}

fn adler_32(bytes: &[u8]) -> u32 {
    let (mut sum, mut sums): (u32, u32) = (1, 0);
    for byte in bytes {
        sum = (sum + u32::from(*byte)) % 65_521;
        sums = (sums + sum) % 65_521;
    }
    sums << 16 | sum
}

fn keys<'e>(call: &Call<'_, 'e>) -> Result<&'e dyn Keys, Failure> {
    call.environment().keys().ok_or_else(|| Failure::new("keys and certificates cannot be made here"))
}

/// `bcrypt`: a failure is a text, too.
fn hashed_password(call: &mut Call<'_, '_>, at: usize) -> Result<String, Failure> {
    let (keys, password) = (keys(call)?, call.text(at).clone());
    or_told(keys.bcrypt(password.as_bytes(), call), "failed to encrypt string with bcrypt: ")
}

fn private_key(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let kind = match call.bytes(0) {
        b"" | b"rsa" => KeyKind::Rsa,
        b"dsa" => KeyKind::Dsa,
        b"ecdsa" => KeyKind::Ecdsa,
        b"ed25519" => KeyKind::Ed25519,
        _ => {
            let text = format!("Unknown type {}", call.text(0));
            return call.answer_text(text);
        }
    };
    let key = or_told(keys(call)?.private_key(kind, call), "failed to generate private key: ")?;
    call.answer_text(key)
}

/// A result, or the text that a problem is; a run that ends has no result.
fn or_told(made: Result<String, KeyError>, words: &str) -> Result<String, Failure> {
    match made {
        Err(KeyError::Problem(problem)) => Ok(format!("{words}{problem}")),
        made => Ok(made?),
    }
}

/// Which arguments a function has.
#[derive(Clone, Copy)]
struct Shape {
    /// Addresses and names before the days.
    addresses: bool,
    /// A signer behind the days.
    signer: bool,
    /// Where the key is.
    key: Option<usize>,
}

fn certificate(call: &mut Call<'_, '_>, shape: Shape) -> Result<Value, Failure> {
    let common_name = call.text(0).to_str().into_owned();
    let key = shape.key.map(|at| call.text(at).to_str().into_owned());
    let (mut addresses, mut names) = (Vec::new(), Vec::new());
    if shape.addresses {
        addresses = texts(&call.list(1), |item| format!("error parsing ip: {item} is not a string"))?;
        for address in &addresses {
            if address.parse::<std::net::IpAddr>().is_err() {
                return Err(Failure::new(format!("error parsing ip: {address}")));
            }
        }
        names = texts(&call.list(2), |item| {
            format!("error processing alternate dns name: {item} is not a string")
        })?;
    }
    let signer = shape
        .signer
        .then(|| Certificate { certificate: field(call.value(4), "Cert"), key: field(call.value(4), "Key") });
    let request = CertificateRequest {
        common_name: &common_name,
        addresses,
        names,
        days: call.int(if shape.addresses { 3 } else { 1 }),
        authority: !shape.addresses,
        key: key.as_deref(),
        signer,
        now: call.environment().now(),
    };
    Ok(record(keys(call)?.certificate(&request, call)?))
}

fn record(certificate: Certificate) -> Value {
    let Certificate { certificate, key } = certificate;
    Value::object(Record::new(&CERTIFICATE, vec![Value::text(certificate), Value::text(key)]))
}

fn field(value: &Value, name: &str) -> String {
    match value {
        Value::Object(object) => {
            object.field(name).and_then(|field| field.as_text().map(ToString::to_string)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn texts(list: &List, problem: impl Fn(String) -> String) -> Result<Vec<String>, Failure> {
    let text = |item: Value| match item.as_text() {
        Some(text) => Ok(text.to_string()),
        None => Err(Failure::new(problem(crate::template::fmt::sprint(&item)))),
    };
    list.to_vec().into_iter().map(text).collect()
}

fn custom_certificate(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let certificate = base_64_decoded(call.bytes(0));
    let certificate = certificate.map_err(|_at| Failure::new("unable to decode base64 certificate"))?;
    let key = base_64_decoded(call.bytes(1));
    let key = key.map_err(|_at| Failure::new("unable to decode base64 private key"))?;
    keys(call)?.check(&certificate, &key, call)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(record(Certificate { certificate: text(&certificate), key: text(&key) }))
}

fn cipher(password: &[u8]) -> Aes256 {
    // The password is the key: cut off, or filled up with zeros.
    let mut key = [0; 32];
    for (to, from) in key.iter_mut().zip(password) {
        *to = *from;
    }
    Aes256::new(&key.into())
}

const BLOCK_BYTES: usize = 16;

fn encrypt(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    if call.bytes(1).is_empty() {
        return Ok(Value::text(""));
    }
    call.makes_text(call.bytes(1).len().saturating_mul(2))?;
    let cipher = cipher(call.bytes(0));
    let mut content = call.bytes(1).to_vec();
    let padding = BLOCK_BYTES - content.len() % BLOCK_BYTES;
    content.resize(content.len() + padding, u8::try_from(padding).unwrap_or(0));
    let mut previous = [0; BLOCK_BYTES];
    call.environment().random(&mut previous);
    let mut out = previous.to_vec();
    let (blocks, _) = content.as_chunks::<BLOCK_BYTES>();
    for plain in blocks {
        let mut block: Block<Aes256> = Block::<Aes256>::default();
        for (to, (from, with)) in block.iter_mut().zip(plain.iter().zip(previous)) {
            *to = from ^ with;
        }
        cipher.encrypt_block(&mut block);
        previous = block.into();
        out.extend_from_slice(&previous);
    }
    call.answer_text(STANDARD.encode(out))
}

fn decrypt(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    if call.bytes(1).is_empty() {
        return Ok(Value::text(""));
    }
    let cipher = cipher(call.bytes(0));
    let encrypted = base_64_decoded(call.bytes(1)).map_err(illegal_base_64)?;
    call.makes_text(encrypted.len())?;
    let Some((first, rest)) = encrypted.split_first_chunk::<BLOCK_BYTES>() else {
        let capacity = encrypted.len();
        return Err(Failure::new(format!(
            "runtime error: slice bounds out of range [:16] with capacity {capacity}"
        )));
    };
    let (blocks, left) = rest.as_chunks::<BLOCK_BYTES>();
    if !left.is_empty() {
        return Err(Failure::new("crypto/cipher: input not full blocks"));
    }
    let mut out = Vec::with_capacity(rest.len());
    let mut previous = *first;
    for encrypted in blocks {
        let mut block: Block<Aes256> = (*encrypted).into();
        cipher.decrypt_block(&mut block);
        out.extend(block.iter().zip(previous).map(|(byte, with)| byte ^ with));
        previous = *encrypted;
    }
    let Some(padding) = out.last().copied().map(usize::from) else {
        return Err(Failure::new("runtime error: index out of range [-1]"));
    };
    let Some(length) = out.len().checked_sub(padding) else {
        let length = i64::try_from(out.len()).unwrap_or(0) - i64::try_from(padding).unwrap_or(0);
        return Err(Failure::new(format!("runtime error: slice bounds out of range [:{length}]")));
    };
    out.truncate(length);
    call.answer_text(out)
}

/// Shapes of passwords by their kind: each letter stands for a set of characters.
const SHAPES: &[(&str, &[&str])] = &[
    ("maximum", &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"]),
    (
        "long",
        &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
    ),
    ("medium", &["CvcnoCvc", "CvcCvcno"]),
    ("short", &["Cvcn"]),
    ("basic", &["aaanaaan", "aannaaan", "aaannaaa"]),
    ("pin", &["nnnn"]),
];

fn characters(letter: u8) -> &'static [u8] {
    match letter {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// The Master Password algorithm.
fn derive_password(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    // scrypt holds 32 MiB for a moment.
    call.makes_bytes(scrypt::MEMORY_BYTES)?;
    let counter = match call.value(0) {
        Value::Uint(_, counter) => u32::try_from(*counter).unwrap_or(0),
        _ => 0,
    };
    let Some((_, shapes)) = SHAPES.iter().find(|(name, _)| *call.text(1) == **name) else {
        let text = format!("cannot find password template {}", call.text(1));
        return call.answer_text(text);
    };
    let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let (password, user, site) = (call.bytes(2), call.bytes(3), call.bytes(4));
    let key = scrypt::scrypt(password, &[SEED, &length(user), user].concat());
    let seed = scrypt::hmac(&key, &[SEED, &length(site), site, &counter.to_be_bytes()].concat());
    let at = |place: usize, of: usize| seed.get(place).map_or(0, |byte| usize::from(*byte) % of.max(1));
    let shape = shapes.get(at(0, shapes.len())).copied().unwrap_or_default();
    let text: Vec<u8> = shape
        .bytes()
        .enumerate()
        .filter_map(|(place, letter)| {
            let characters = characters(letter);
            characters.get(at(place + 1, characters.len())).copied()
        })
        .collect();
    Ok(Value::Text(Text::from(text)))
}
