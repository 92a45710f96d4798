//! `proj windows`: when applications of a project may sync (CLI-720).

use serde_json::json;
use tiphys_api::project::{AppProjectSpec, SyncWindow};

use super::work::Work;
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

const FLAGS: &[Flag] = &[
    flag("kind", Kind::Text, "", "Kind of the window: allow or deny").or('k'),
    flag("schedule", Kind::Text, "", "When it opens, as cron"),
    flag("duration", Kind::Text, "", "How long it is open, as 1h30m"),
    flag("applications", Kind::Csv, "", "Applications it is for; globs"),
    flag("namespaces", Kind::Csv, "", "Namespaces it is for; globs"),
    flag("clusters", Kind::Csv, "", "Clusters it is for; globs"),
    flag("manual-sync", Kind::Bool, "false", "Syncs by hand are free"),
    flag("sync-overrun", Kind::Bool, "false", "A sync that began in time may end"),
    flag("time-zone", Kind::Text, "UTC", "Time zone of the schedule"),
    flag("use-and-operator", Kind::Bool, "false", "Every selector must match"),
    flag("description", Kind::Text, "", "Description of the window"),
];
const OUTPUT: &[Flag] = &[flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o')];
const DELETE_FLAGS: &[Flag] = &[flag("yes", Kind::Bool, "false", "Do not ask").or('y')];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    Delete,
    List,
    ManualSync(bool),
    SyncOverrun(bool),
    Update,
}

const TWO: (usize, usize) = (2, 2);

const fn switch(verb: Verb, name: &'static str, about: &'static str) -> Command<Verb> {
    Command::new(verb, (name, "PROJECT ID"), about, &[], TWO)
}

static GROUP: Group<Verb> = Group {
    name: "proj windows",
    about: "Manage the sync windows of a project",
    commands: &[
        Command::new(Verb::Add, ("add", "PROJECT"), "Add a sync window", &[FLAGS], (1, 1)),
        Command::new(Verb::Delete, ("delete", "PROJECT ID"), "Delete a sync window", &[DELETE_FLAGS], TWO),
        switch(Verb::ManualSync(false), "disable-manual-sync", "Syncs by hand are bound by the window"),
        switch(Verb::SyncOverrun(false), "disable-sync-overrun", "A sync ends with the window"),
        switch(Verb::ManualSync(true), "enable-manual-sync", "Syncs by hand are free"),
        switch(Verb::SyncOverrun(true), "enable-sync-overrun", "A sync that began in time may end"),
        Command::new(Verb::List, ("list", "PROJECT"), "List sync windows", &[OUTPUT], (1, 1)),
        Command::new(Verb::Update, ("update", "PROJECT ID"), "Change a sync window", &[FLAGS], TWO),
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Runs `proj windows …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    if verb == Verb::List {
        return Box::pin(list(session)).await;
    }
    if verb == Verb::Delete && !session.confirms("Are you sure you want to delete sync window? [y/n] ").await
    {
        return Ok(OK);
    }
    let work = Work::begin(session).await?;
    let edit =
        |spec: &mut AppProjectSpec| apply(verb, spec, session.operand(1), session.flags).map(|()| true);
    work.edit(session.operand(0), edit).await?;
    Ok(OK)
}

/// Edits the windows of a spec.
fn apply(verb: Verb, spec: &mut AppProjectSpec, id: &str, flags: &Parsed) -> Result<(), Failure> {
    match verb {
        Verb::Add => spec.sync_windows.push(Some(SyncWindow {
            kind: flags.text("kind").to_owned(),
            schedule: flags.text("schedule").to_owned(),
            duration: flags.text("duration").to_owned(),
            applications: flags.texts("applications").to_vec(),
            namespaces: flags.texts("namespaces").to_vec(),
            clusters: flags.texts("clusters").to_vec(),
            manual_sync: flags.is_on("manual-sync"),
            sync_overrun: flags.is_on("sync-overrun"),
            time_zone: flags.text("time-zone").to_owned(),
            and_operator: flags.is_on("use-and-operator"),
            description: flags.text("description").to_owned(),
            ..SyncWindow::default()
        })),
        Verb::Delete => {
            let at = position(spec, id)?;
            spec.sync_windows.remove(at);
        }
        Verb::Update => update(window(spec, id)?, flags),
        Verb::ManualSync(is_on) => window(spec, id)?.manual_sync = is_on,
        Verb::SyncOverrun(is_on) => window(spec, id)?.sync_overrun = is_on,
        Verb::List => {}
    }
    Ok(())
}

/// Sets what is given.
fn update(window: &mut SyncWindow, flags: &Parsed) {
    let texts = [
        ("schedule", &mut window.schedule),
        ("duration", &mut window.duration),
        ("kind", &mut window.kind),
        ("time-zone", &mut window.time_zone),
        ("description", &mut window.description),
    ];
    for (name, field) in texts {
        if flags.is_set(name) {
            flags.text(name).clone_into(field);
        }
    }
    let lists = [
        ("applications", &mut window.applications),
        ("namespaces", &mut window.namespaces),
        ("clusters", &mut window.clusters),
    ];
    for (name, field) in lists {
        if flags.is_set(name) {
            *field = flags.texts(name).to_vec();
        }
    }
    let switches = [
        ("manual-sync", &mut window.manual_sync),
        ("sync-overrun", &mut window.sync_overrun),
        ("use-and-operator", &mut window.and_operator),
    ];
    for (name, field) in switches {
        if flags.is_set(name) {
            *field = flags.is_on(name);
        }
    }
}

/// The place of a window in the list, which is its id.
fn position(spec: &AppProjectSpec, id: &str) -> Result<usize, Failure> {
    let at: i64 = id.parse().map_err(|_not_a_number| {
        Failure::generic(format!("strconv.Atoi: parsing \"{id}\": invalid syntax"))
    })?;
    let found = usize::try_from(at).ok().filter(|at| *at < spec.sync_windows.len());
    found.ok_or_else(|| Failure::generic(format!("window with id '{id}' not found")))
}

fn window<'a>(spec: &'a mut AppProjectSpec, id: &str) -> Result<&'a mut SyncWindow, Failure> {
    let at = position(spec, id)?;
    let found = spec.sync_windows.get_mut(at).and_then(Option::as_mut);
    found.ok_or_else(|| Failure::generic(format!("window with id '{id}' not found")))
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let project = work.project(session.operand(0)).await?;
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => session.terminal.data(&print(&json!(project.spec.sync_windows), machine)?),
        (None, "wide" | "") => session.terminal.print(&table(&project, session.terminal.now())),
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

/// The table of `proj windows list`.
fn table(project: &tiphys_api::AppProject, now: jiff::Timestamp) -> String {
    let mut table = Table::new(&[
        "ID",
        "STATUS",
        "KIND",
        "SCHEDULE",
        "DURATION",
        "APPLICATIONS",
        "NAMESPACES",
        "CLUSTERS",
        "MANUALSYNC",
        "SYNCOVERRUN",
        "TIMEZONE",
        "USEANDOPERATOR",
    ]);
    let list = |items: &[String]| if items.is_empty() { "-".to_owned() } else { items.join(",") };
    let switch = |is_on: bool| if is_on { "Enabled" } else { "Disabled" }.to_owned();
    for (at, window) in project.windows() {
        // A window that cannot be judged is never open for anybody (REP-178).
        let is_active = tiphys_policy::window::is_active(window, now).unwrap_or(false);
        table.row(vec![
            at.to_string(),
            if is_active { "Active" } else { "Inactive" }.to_owned(),
            window.kind.clone(),
            window.schedule.clone(),
            window.duration.clone(),
            list(&window.applications),
            list(&window.namespaces),
            list(&window.clusters),
            switch(window.manual_sync),
            switch(window.sync_overrun),
            window.time_zone.clone(),
            switch(window.and_operator),
        ]);
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    fn flags(args: &[&str]) -> Parsed {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        parse(&args, &[FLAGS]).unwrap()
    }

    #[test]
    fn cli_720_windows_are_addressed_by_their_place() {
        let mut spec = AppProjectSpec::default();
        let add =
            flags(&["-k", "deny", "--schedule", "0 6 * * *", "--duration", "2h", "--applications", "a,b"]);
        apply(Verb::Add, &mut spec, "", &add).unwrap();
        let shown = serde_json::to_value(&spec.sync_windows).unwrap();
        assert_eq!(
            shown,
            json!([{"kind": "deny", "schedule": "0 6 * * *", "duration": "2h", "applications": ["a", "b"], "timeZone": "UTC"}])
        );
        apply(Verb::Update, &mut spec, "0", &flags(&["--duration", "1h", "--manual-sync"])).unwrap();
        apply(Verb::SyncOverrun(true), &mut spec, "0", &flags(&[])).unwrap();
        let window = spec.sync_windows[0].clone().unwrap();
        assert_eq!((window.duration.as_str(), window.manual_sync, window.sync_overrun), ("1h", true, true));
        assert_eq!(window.schedule, "0 6 * * *");
        for (id, text) in [
            ("x", "strconv.Atoi: parsing \"x\": invalid syntax"),
            ("1", "window with id '1' not found"),
            ("-1", "window with id '-1' not found"),
        ] {
            let failure = apply(Verb::Delete, &mut spec, id, &flags(&[])).unwrap_err();
            assert_eq!((failure.message.as_str(), failure.code), (text, 20));
        }
        // An empty place keeps the ids of those behind it (REP-181).
        spec.sync_windows.insert(0, None);
        assert!(apply(Verb::Update, &mut spec, "0", &flags(&[])).is_err());
        apply(Verb::Delete, &mut spec, "1", &flags(&[])).unwrap();
        assert_eq!(spec.sync_windows, [None]);
    }

    #[test]
    fn cli_720_the_table_says_what_is_open_now() {
        let project = serde_json::from_value(json!({"spec": {"syncWindows": [null,
            {"kind": "deny", "schedule": "0 6 * * *", "duration": "2h", "applications": ["*"], "timeZone": "UTC"},
            {"kind": "allow", "schedule": "bad", "duration": "2h", "namespaces": ["a", "b"], "manualSync": true}]}}))
        .unwrap();
        let text = table(&project, "2026-05-04T07:30:00Z".parse().unwrap());
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            rows,
            [
                "1   Active    deny   0 6 * * *  2h        *             -           -         Disabled    Disabled     UTC       Disabled",
                "2   Inactive  allow  bad        2h        -             a,b         -         Enabled     Disabled               Disabled",
            ]
        );
    }
}
