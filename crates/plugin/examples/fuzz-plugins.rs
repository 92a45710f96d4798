//! Damaged messages, archives and configurations to what reads them: none may panic, and nothing may leave its directory.
//!
//! `cargo run --release -p tiphys-plugin --example fuzz-plugins -- [--seconds N]`, so long for each of them.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a program for terminals"
)]
#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tiphys_plugin::config::Config;
use tiphys_plugin::message::{self, Flags, Manifests, Metadata};
use tiphys_plugin::unpack::unpack;
use tiphys_wire::frame::Messages;

struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.draw() % (end.max(1) as u64)).unwrap_or_default()
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(16)).min(bytes.len());
            match self.below(5) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                2 => bytes.truncate(at),
                _ => {
                    let value = u8::try_from(self.below(256)).unwrap_or_default();
                    match bytes.get_mut(at) {
                        Some(byte) => *byte = value,
                        None => bytes.push(value),
                    }
                }
            }
        }
    }
}

fn messages(random: &mut Random, _folder: &Path) {
    let metadata = Metadata {
        app_name: "a".to_owned(),
        app_rel_path: "apps/a".to_owned(),
        checksum: "00".to_owned(),
        size: 300,
        env: vec![("A".to_owned(), "1".to_owned())],
    };
    let announced = json!({"name": "n", "required": true, "array": ["a"], "map": {"k": "v"}});
    let mut bytes = match random.below(4) {
        0 => metadata.encode(),
        1 => Manifests { manifests: vec!["kind: A".into()], source_type: "p".into() }.encode(),
        2 => message::encode_announcements(&[announced]),
        _ => Flags { first: true, second: true }.encode(),
    };
    random.damage(&mut bytes);
    let _one = message::stream_request(&bytes);
    let _two = Manifests::joined(&bytes);
    let _three = message::announcements(&bytes);
    let _four = Flags::decode(&bytes);
    let mut body = vec![0, 0, 0, 0, u8::try_from(bytes.len().min(255)).unwrap_or_default()];
    body.extend(&bytes);
    random.damage(&mut body);
    if let Ok(mut messages) = Messages::new(1 << 16, Some("gzip")) {
        messages.push(&body.into());
        while let Ok(Some(_message)) = messages.take() {}
    }
}

fn archives(random: &mut Random, folder: &Path) {
    let mut builder = tar::Builder::new(Vec::new());
    let names = ["a", "d/b", "../x", "/x", "d/../../x", "l", "l/x", "./c"];
    for _ in 0..=random.below(5) {
        let mut header = tar::Header::new_gnu();
        let name = names[random.below(names.len())];
        let Some(field) = header.as_old_mut().name.get_mut(..name.len()) else { continue };
        field.copy_from_slice(name.as_bytes());
        header.set_mode(0o777);
        let is_link = random.below(3) == 0;
        if is_link {
            header.set_entry_type(tar::EntryType::Symlink);
            let _set =
                header.set_link_name_literal(["..", "/etc", "d", "../..", "a/..", "l"][random.below(6)]);
        }
        header.set_size(if is_link { 0 } else { 3 });
        header.set_cksum();
        let _written = builder.append(&header, if is_link { &b""[..] } else { b"abc" });
    }
    let mut bytes = builder.into_inner().unwrap_or_default();
    if random.below(2) == 0 {
        random.damage(&mut bytes);
    }
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    let _written = packer.write_all(&bytes);
    let mut packed = packer.finish().unwrap_or_default();
    if random.below(3) == 0 {
        random.damage(&mut packed);
    }
    let place = folder.join("in");
    let _gone = std::fs::remove_dir_all(&place);
    let _made = std::fs::create_dir(&place);
    let _done = unpack(packed.as_slice(), &place, random.below(2) == 0);
    let beside = std::fs::read_dir(folder).map(Iterator::count).unwrap_or_default();
    assert_eq!(beside, 1, "something was written beside the directory");
}

fn configurations(random: &mut Random, _folder: &Path) {
    let text = "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {name: p}\nspec:\n  version: v1\n  init: {command: [a]}\n  generate: {command: [sh, -c], args: [x]}\n  discover: {find: {glob: '**/a'}}\n  parameters: {static: [{name: x}]}\n";
    let mut bytes = text.as_bytes().to_vec();
    random.damage(&mut bytes);
    if let Ok(config) = Config::read(&String::from_utf8_lossy(&bytes)) {
        assert!(!config.socket().contains('/'), "the name of the socket leaves its directory");
    }
}

/// What is fed a case.
type Target = fn(&mut Random, &Path);

fn main() {
    let mut seconds = 10_u64;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--seconds" {
            seconds = args.next().and_then(|text| text.parse().ok()).unwrap_or(seconds);
        }
    }
    let Ok(folder) = tempfile::tempdir() else {
        eprintln!("no directory can be made");
        std::process::exit(1);
    };
    let targets: [(&str, Target); 3] =
        [("messages", messages), ("archives", archives), ("configurations", configurations)];
    for (name, run) in targets {
        let began = Instant::now();
        let mut seed = 1;
        while began.elapsed() < Duration::from_secs(seconds) {
            let case = || run(&mut Random(seed), folder.path());
            if catch_unwind(AssertUnwindSafe(case)).is_err() {
                eprintln!("{name}: case {seed} panics");
                std::process::exit(1);
            }
            seed += 1;
        }
        println!("{name}: {} cases, no panic", seed - 1);
    }
}
