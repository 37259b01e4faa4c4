//! How a number is obtained: which program measures it, and where its output has it.

use super::parse;

/// The numbers of UCX and Redis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// Per second.
    Rate,
    /// The median latency, in the program's unit.
    Median,
}

/// A measurement by a program. One that prints several numbers runs once a round for all of them.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
    /// `rackweave perf` with these arguments, and a pointer into its JSON object.
    Ours {
        arguments: &'static str,
        pointer: &'static str,
    },
    /// The program of `peers/`, in the same form.
    Program {
        arguments: &'static str,
        pointer: &'static str,
    },
    /// `ucx_perftest` between two processes with shared memory.
    Ucx {
        arguments: &'static str,
        field: Field,
    },
    /// `redis-benchmark` of INCR.
    Redis { in_flight: u32, field: Field },
    /// `peers/alltoall.c` by four ranks; bytes of a block.
    Alltoall { block: u32 },
    /// Random reads of a file; operations per second.
    Fio,
    /// TCP over the loopback interface; bits per second.
    Iperf,
}

/// Programs that a probe runs, and the Debian package that has them.
pub struct Tool {
    pub programs: &'static [&'static str],
    pub package: &'static str,
}

impl Probe {
    /// What must be installed.
    pub fn tools(self) -> &'static [Tool] {
        match self {
            Self::Ours { .. } | Self::Program { .. } => &[],
            Self::Ucx { .. } => &[Tool {
                programs: &["ucx_perftest"],
                package: "ucx-utils",
            }],
            Self::Redis { .. } => &[
                Tool {
                    programs: &["redis-server"],
                    package: "redis-server",
                },
                Tool {
                    programs: &["redis-benchmark"],
                    package: "redis-tools",
                },
            ],
            Self::Alltoall { .. } => &[
                Tool {
                    programs: &["mpirun"],
                    package: "openmpi-bin",
                },
                Tool {
                    programs: &["mpicc"],
                    package: "libopenmpi-dev",
                },
                Tool {
                    programs: &["gcc"],
                    package: "gcc",
                },
            ],
            Self::Fio => &[Tool {
                programs: &["fio"],
                package: "fio",
            }],
            Self::Iperf => &[Tool {
                programs: &["iperf3"],
                package: "iperf3",
            }],
        }
    }

    /// The run that has the number, as a line for people; runs with the same line are one run.
    pub fn run_line(self) -> String {
        match self {
            Self::Ours { arguments, .. } => format!("rackweave perf {arguments}"),
            Self::Program { arguments, .. } => format!("rackweave-peers {arguments}"),
            Self::Ucx { arguments, .. } => format!("ucx_perftest {arguments}"),
            Self::Redis { in_flight, .. } => format!("redis-benchmark -t incr -P {in_flight}"),
            Self::Alltoall { block } => format!("mpirun -n 4 alltoall {block}"),
            Self::Fio => "fio --rw=randread".to_owned(),
            Self::Iperf => "iperf3 -l 1M".to_owned(),
        }
    }

    /// The number in the run's output.
    pub fn read(self, output: &str) -> Result<f64, String> {
        let number = match self {
            Self::Ours { pointer, .. } => {
                parse::verified(output)?;
                parse::json(output, pointer)
            }
            Self::Program { pointer, .. } => parse::json(output, pointer),
            Self::Ucx { field, .. } => parse::ucx(output, field),
            Self::Redis { field, .. } => parse::redis(output, field),
            Self::Alltoall { .. } => parse::json(output, "/gigabytes_per_s"),
            Self::Fio => parse::json(output, "/jobs/0/read/iops"),
            Self::Iperf => parse::json(output, "/end/sum_received/bits_per_second"),
        }?;
        match number > 0.0 {
            true => Ok(number),
            false => Err(format!("{number} is no measurement")),
        }
    }
}
