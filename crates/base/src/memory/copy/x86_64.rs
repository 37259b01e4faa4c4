//! Copies in assembly, because relaxed accesses are at most eight bytes wide and compilers do not
//! join them.
//!
//! Only SSE2 is needed, which every x86-64 processor has, so nothing is detected at run time.
//! Beyond the first-level cache, wider moves are no faster.

use core::arch::asm;

/// Bytes copied in one iteration of the loops.
const TURN: usize = 64;

/// [`stream`] stores a multiple of this many bytes.
pub(super) const STREAMED: usize = 16;

/// Copies `len` bytes; every length ends with a pair of accesses that may overlap.
///
/// # Safety
/// As for [`super::copy_shared`]; the ranges do not overlap.
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: each arm accesses no more than `len` bytes from both pointers on.
    unsafe {
        match len {
            0 => {}
            1..4 => bytes(source, target, len),
            4..8 => pair::<4>(source, target, len),
            8..16 => pair::<8>(source, target, len),
            16..32 => pair::<16>(source, target, len),
            32..TURN => pair::<32>(source, target, len),
            _ => {
                turns(source, target, len / TURN * TURN);
                let rest = len - TURN;
                turns(source.add(rest), target.add(rest), TURN);
            }
        }
    }
}

/// # Safety
/// As for [`copy`], with `len` above zero.
#[inline]
unsafe fn bytes(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        asm!(
            "2:",
            "movzx {byte:e}, byte ptr [{source} + {at}]",
            "mov byte ptr [{target} + {at}], {byte:l}",
            "inc {at}",
            "cmp {at}, {len}",
            "jb 2b",
            source = in(reg) source, target = in(reg) target, len = in(reg) len,
            at = inout(reg) 0usize => _, byte = out(reg) _,
            options(nostack),
        );
    }
}

/// The first and the last `N` bytes of `len`, 4, 8, 16 or 32; all loads precede all stores.
///
/// # Safety
/// As for [`copy`], with `len` from `N` to twice `N`.
#[inline]
unsafe fn pair<const N: usize>(source: *const u8, target: *mut u8, len: usize) {
    let last = len - N;
    // SAFETY: as the caller promises.
    unsafe {
        match N {
            4 => asm!(
                "mov {a:e}, dword ptr [{source}]",
                "mov {b:e}, dword ptr [{source} + {last}]",
                "mov dword ptr [{target}], {a:e}",
                "mov dword ptr [{target} + {last}], {b:e}",
                source = in(reg) source, target = in(reg) target, last = in(reg) last,
                a = out(reg) _, b = out(reg) _,
                options(nostack, preserves_flags),
            ),
            8 => asm!(
                "mov {a}, qword ptr [{source}]",
                "mov {b}, qword ptr [{source} + {last}]",
                "mov qword ptr [{target}], {a}",
                "mov qword ptr [{target} + {last}], {b}",
                source = in(reg) source, target = in(reg) target, last = in(reg) last,
                a = out(reg) _, b = out(reg) _,
                options(nostack, preserves_flags),
            ),
            16 => asm!(
                "movups {a}, xmmword ptr [{source}]",
                "movups {b}, xmmword ptr [{source} + {last}]",
                "movups xmmword ptr [{target}], {a}",
                "movups xmmword ptr [{target} + {last}], {b}",
                source = in(reg) source, target = in(reg) target, last = in(reg) last,
                a = out(xmm_reg) _, b = out(xmm_reg) _,
                options(nostack, preserves_flags),
            ),
            32 => asm!(
                "movups {a}, xmmword ptr [{source}]",
                "movups {b}, xmmword ptr [{source} + 16]",
                "movups {c}, xmmword ptr [{source} + {last}]",
                "movups {d}, xmmword ptr [{source} + {last} + 16]",
                "movups xmmword ptr [{target}], {a}",
                "movups xmmword ptr [{target} + 16], {b}",
                "movups xmmword ptr [{target} + {last}], {c}",
                "movups xmmword ptr [{target} + {last} + 16], {d}",
                source = in(reg) source, target = in(reg) target, last = in(reg) last,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            ),
            _ => unreachable!(),
        }
    }
}

/// # Safety
/// As for [`copy`], with `len` a multiple of [`TURN`] above zero.
#[inline]
unsafe fn turns(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        asm!(
            "2:",
            "movups {a}, xmmword ptr [{source} + {at}]",
            "movups {b}, xmmword ptr [{source} + {at} + 16]",
            "movups {c}, xmmword ptr [{source} + {at} + 32]",
            "movups {d}, xmmword ptr [{source} + {at} + 48]",
            "movups xmmword ptr [{target} + {at}], {a}",
            "movups xmmword ptr [{target} + {at} + 16], {b}",
            "movups xmmword ptr [{target} + {at} + 32], {c}",
            "movups xmmword ptr [{target} + {at} + 48], {d}",
            "add {at}, 64",
            "cmp {at}, {len}",
            "jb 2b",
            source = in(reg) source, target = in(reg) target, len = in(reg) len,
            at = inout(reg) 0usize => _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Copies `len` bytes, a multiple of [`STREAMED`], bypassing the caches.
///
/// # Safety
/// As for [`copy`], with `target` a multiple of [`STREAMED`].
pub(super) unsafe fn stream(source: *const u8, target: *mut u8, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: as the caller promises.
    unsafe {
        asm!(
            "2:",
            "movups {a}, xmmword ptr [{source} + {at}]",
            "movntdq xmmword ptr [{target} + {at}], {a}",
            "add {at}, 16",
            "cmp {at}, {len}",
            "jb 2b",
            source = in(reg) source, target = in(reg) target, len = in(reg) len,
            at = inout(reg) 0usize => _, a = out(xmm_reg) _,
            options(nostack),
        );
    }
}
