//! `cargo xtask install`: installs the headers, the library and its pkg-config file where C and C++
//! programs find them. `cargo xtask header` writes the header that is generated from the sources.

use crate::Failure;
use crate::process::{self, cargo, root, target_dir};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The options of the command line.
#[derive(PartialEq, Eq, Debug)]
struct Options {
    prefix: PathBuf,
    debug: bool,
    uninstall: bool,
    /// A folder with libraries that are already built.
    from: Option<PathBuf>,
}

/// The names under which the shared library is installed.
struct Names {
    /// With the full version: the file.
    file: String,
    /// The name that the dynamic linker looks for: a link to the file.
    asked: String,
    version: String,
}

impl Names {
    fn new(version: &str) -> Self {
        let major = version.split('.').next().unwrap_or("0");
        Self {
            file: format!("librackweave.so.{version}"),
            asked: format!("librackweave.so.{major}"),
            version: version.to_owned(),
        }
    }

    /// All installed files, below the prefix.
    fn all(&self) -> [String; 7] {
        [
            "include/rackweave.h".to_owned(),
            "include/rackweave.hpp".to_owned(),
            "lib/librackweave.a".to_owned(),
            format!("lib/{}", self.file),
            format!("lib/{}", self.asked),
            "lib/librackweave.so".to_owned(),
            "lib/pkgconfig/rackweave.pc".to_owned(),
        ]
    }
}

/// Generates the header from the sources.
pub fn header(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::usage("header takes no arguments"));
    }
    let test = [
        "test",
        "--package",
        "rackweave-capi",
        "--test",
        "all",
        "header",
    ];
    let mut command = cargo(&test);
    process::run(command.env("RACKWEAVE_WRITE_HEADER", "1"))
}

/// Installs or uninstalls the library.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if !cfg!(target_os = "linux") {
        return Err(Failure::check(
            "install knows the names of shared libraries on Linux only; build with `cargo build \
             --package rackweave-capi` and copy crates/capi/include and the library yourself",
        ));
    }
    let options = parse(arguments)?;
    let names = Names::new(&version()?);
    if options.uninstall {
        return uninstall(&options.prefix, &names);
    }
    let folders = ["include", "lib", "lib/pkgconfig"];
    for folder in folders {
        writable(&options.prefix, folder)?;
    }
    let built = match &options.from {
        Some(folder) => folder.clone(),
        None => build(options.debug)?,
    };
    install(&options.prefix, &built, &names)
}

fn parse(arguments: &[String]) -> Result<Options, Failure> {
    let mut options = Options {
        prefix: PathBuf::from("/usr/local"),
        debug: false,
        uninstall: false,
        from: None,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut folder = || {
            let value = rest.next().filter(|value| !value.is_empty());
            let value =
                value.ok_or_else(|| Failure::usage(format!("{argument} needs a folder")))?;
            // Cargo runs this in the root, whatever the user's current folder is.
            std::path::absolute(value).map_err(|error| Failure::usage(format!("{value}: {error}")))
        };
        match argument.as_str() {
            "--prefix" => options.prefix = folder()?,
            "--from" => options.from = Some(folder()?),
            "--debug" => options.debug = true,
            "--uninstall" => options.uninstall = true,
            other => return Err(Failure::usage(format!("install knows no {other}"))),
        }
    }
    Ok(options)
}

/// The version of the project, which is the library's.
fn version() -> Result<String, Failure> {
    let path = root().join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(|error| cannot("read", &path, &error))?;
    let section = text.split("[workspace.package]").nth(1).unwrap_or_default();
    let line = section.lines().find(|line| line.starts_with("version"));
    let version = line.and_then(|line| line.split('"').nth(1));
    version.map(str::to_owned).ok_or_else(|| {
        Failure::check(format!(
            "{}: there is no version in [workspace.package]",
            path.display()
        ))
    })
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; choose a folder of yours with --prefix, or run this as somebody who may"
        }
        _ => "",
    };
    Failure::check(format!("cannot {what} {path}: {error}{hint}"))
}

/// Makes a folder, and checks that files can be created there, before anything is built.
fn writable(prefix: &Path, folder: &str) -> Result<(), Failure> {
    let folder = prefix.join(folder);
    fs::create_dir_all(&folder).map_err(|error| cannot("make", &folder, &error))?;
    let probe = folder.join(".rackweave-install");
    fs::write(&probe, "").map_err(|error| cannot("write to", &folder, &error))?;
    fs::remove_file(&probe).map_err(|error| cannot("write to", &folder, &error))
}

/// Builds the shared and the static library; returns where they are.
fn build(debug: bool) -> Result<PathBuf, Failure> {
    // Both alone, without the rlib for other Rust code: so they are optimised as a whole.
    let kinds = ["--lib", "--crate-type", "cdylib,staticlib"];
    let mut command = cargo(&["rustc", "--package", "rackweave-capi"]);
    command.args(kinds);
    if !debug {
        command.arg("--release");
    }
    process::run(&mut command)?;
    Ok(target_dir().join(if debug { "debug" } else { "release" }))
}

fn install(prefix: &Path, built: &Path, names: &Names) -> Result<(), Failure> {
    let sources = root().join("crates/capi/include");
    let lib = prefix.join("lib");
    for header in ["rackweave.h", "rackweave.hpp"] {
        put(&sources.join(header), &prefix.join("include").join(header))?;
    }
    put(
        &built.join("librackweave_capi.a"),
        &lib.join("librackweave.a"),
    )?;
    put(&built.join("librackweave_capi.so"), &lib.join(&names.file))?;
    link(&names.file, &lib.join(&names.asked))?;
    link(&names.asked, &lib.join("librackweave.so"))?;
    let path = lib.join("pkgconfig/rackweave.pc");
    fs::write(&path, pkg_config(&names.version)).map_err(|error| cannot("write", &path, &error))?;
    for name in names.all() {
        println!("installed {}", prefix.join(name).display());
    }
    let folder = lib.join("pkgconfig");
    println!(
        "Programs find it with\n  PKG_CONFIG_PATH={} pkg-config --cflags --libs rackweave\nand, \
         unless the system looks there, run with LD_LIBRARY_PATH={}",
        folder.display(),
        lib.display()
    );
    Ok(())
}

/// Puts a copy in place atomically: running programs keep the file that they have mapped.
fn put(from: &Path, to: &Path) -> Result<(), Failure> {
    let mut beside = to.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    fs::copy(from, &beside).map_err(|error| {
        Failure::check(format!(
            "cannot copy {} to {}: {error}",
            from.display(),
            to.display()
        ))
    })?;
    fs::rename(&beside, to).map_err(|error| cannot("write", to, &error))
}

#[cfg(unix)]
fn link(target: &str, at: &Path) -> Result<(), Failure> {
    if let Err(error) = fs::remove_file(at)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(cannot("replace", at, &error));
    }
    std::os::unix::fs::symlink(target, at).map_err(|error| cannot("make", at, &error))
}

#[cfg(not(unix))]
fn link(_: &str, at: &Path) -> Result<(), Failure> {
    Err(Failure::check(format!("{}: no links here", at.display())))
}

/// The prefix is relative to the pkg-config file, so that the installation may be moved.
fn pkg_config(version: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         includedir=${{prefix}}/include\n\
         libdir=${{prefix}}/lib\n\
         \n\
         Name: rackweave\n\
         Description: The data fabric of a disaggregated database\n\
         Version: {version}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -lrackweave\n\
         Libs.private: -lpthread -ldl -lm -lrt -lgcc_s -lc\n"
    )
}

fn uninstall(prefix: &Path, names: &Names) -> Result<(), Failure> {
    let mut removed = 0;
    for name in names.all() {
        let path = prefix.join(name);
        match fs::remove_file(&path) {
            Ok(()) => {
                println!("removed {}", path.display());
                removed += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot("remove", &path, &error)),
        }
    }
    if removed == 0 {
        let (prefix, version) = (prefix.display(), &names.version);
        println!("there is no rackweave {version} below {prefix}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Options, Failure> {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        parse(&arguments)
    }

    #[test]
    fn a_prefix_is_needed_with_its_option() {
        assert!(matches!(parsed(&["--prefix"]), Err(Failure::Usage(_))));
        assert!(matches!(parsed(&["--prefix", ""]), Err(Failure::Usage(_))));
        assert!(matches!(parsed(&["/usr"]), Err(Failure::Usage(_))));
        let options = parsed(&["--debug", "--prefix", "/opt/x"]).expect("it is right");
        assert_eq!(options.prefix, Path::new("/opt/x"));
        assert!(options.debug && !options.uninstall);
    }

    #[test]
    fn the_version_is_that_of_the_project() {
        assert_eq!(version().expect("it is there"), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn a_prefix_that_is_a_file_is_refused() {
        let refused = writable(&root().join("Cargo.toml"), "lib");
        assert!(matches!(refused, Err(Failure::Check(text)) if text.contains("cannot make")));
    }
}
