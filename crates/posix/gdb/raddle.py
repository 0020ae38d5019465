"""Lightweight threads in gdb, of a process or a core dump: `info raddle-threads`, `raddle bt`, `raddle thread`, `raddle apply all bt`.

The library says in one table, `raddle_debug_layout`, where everything is (crates/raddle/src/carry/debug_layout.rs). A parked thread
is shown by an unwinder, which takes the registers that the thread left on its stack for the caller of the innermost frame of
a kernel thread; so nothing is written into the process, and a core dump is as good.
"""

import re
import struct

import gdb
from gdb.unwinder import Unwinder, register_unwinder

MAGIC = b"raddle\0\1"
VERSION = 1
FIELDS = (
    "leaves created note "
    "group chunk fan_out chunks ready object value "
    "wait flags tag sp fs activation slot join info "
    "phase_mask arming parked kernel_thread free join_mask exited "
    "tid task waits_for "
    "name_at name_length "
    "kind_at kind_length wait_object wait_holder "
    "saved_pc saved_kept saved_fp saved_bytes"
).split()
# Instruction pointer, stack pointer, frame pointer, callee-saved register that the switch saves, thread pointer.
REGISTERS = {
    "i386:x86-64": ("rip", "rsp", "rbp", "rbx", "fs_base"),
    "aarch64": ("pc", "sp", "x29", "x19", "tpidr"),
}
TOP_FRAMES = 64
WORD = (1 << 64) - 1
# No thread pointer: the kernel thread under which parked threads are shown.
SELECTED = None


def read(address, length):
    return bytes(gdb.selected_inferior().read_memory(address & WORD, length))


def number(address, length=8):
    return int.from_bytes(read(address, length), "little")


def text_at(address, length, most=256):
    """What is there if it is a name, or an empty string."""
    if not address or not 0 < length <= most:
        return ""
    try:
        text = read(address, length).decode("utf-8")
    except (gdb.MemoryError, UnicodeDecodeError):
        return ""
    return text if text.isprintable() else ""


def registers():
    name = gdb.selected_inferior().architecture().name()
    for known, names in REGISTERS.items():
        if name.startswith(known):
            return names
    raise gdb.GdbError("lightweight threads are not known on %s" % name)


class Layout:
    """The library's table."""

    def __init__(self):
        if gdb.selected_inferior().pid == 0:
            raise gdb.GdbError("There is no process and no core dump.")
        try:
            shown = gdb.execute("with language c -- output/x (unsigned long) &raddle_debug_layout", to_string=True)
        except gdb.error:
            raise gdb.GdbError("The program has no Raddle library of this version (no symbol raddle_debug_layout).")
        # In a program of Rust's the debugger may add a warning about the language.
        self.address = int(re.match("0x[0-9a-f]+", shown).group(), 16)
        head = read(self.address, 24)
        magic, version, length = struct.unpack("<8sQQ", head)
        if magic != MAGIC or version != VERSION or length != 24 + 8 * len(FIELDS):
            raise gdb.GdbError("The library's table is of version %d; this script reads version %d." % (version, VERSION))
        words = struct.unpack("<%dQ" % len(FIELDS), read(self.address + 24, 8 * len(FIELDS)))
        for name, word in zip(FIELDS, words):
            setattr(self, name, word)


class Thread:
    """One lightweight thread; what it says was true when the process stopped."""

    def __init__(self, layout, index, at):
        self.index = index
        self.layout = layout
        self.at = at
        self.fs = number(at + layout.fs)
        self.activation = number(at + layout.activation)
        self.slot = number(at + layout.slot)
        self.phase = number(at + layout.wait) & layout.phase_mask
        info = number(at + layout.info)
        self.name = ""
        if info:
            try:
                self.name = text_at(number(info + layout.name_at), number(info + layout.name_length))
            except gdb.MemoryError:
                pass
        if self.activation:
            self.state = "running"
        elif self.phase == layout.parked:
            self.state = "parked"
        elif self.phase == layout.arming:
            self.state = "parking"
        elif not self.slot:
            self.state = "new"
        else:
            self.state = "ready"

    def waits_for(self):
        if self.state not in ("parked", "parking") or not self.layout.note:
            return ""
        note = self.fs + self.layout.note
        try:
            kind = text_at(number(note + self.layout.kind_at), number(note + self.layout.kind_length), 80)
            thing = number(note + self.layout.wait_object)
        except gdb.MemoryError:
            return ""
        return "%s (%#x)" % (kind, thing) if kind and thing else kind

    def context(self):
        """Its registers while it is off a processor, or nothing."""
        if self.state not in ("parked", "ready"):
            return None
        sp = number(self.at + self.layout.sp)
        if not sp:
            return None
        pc, kept, fp = (number(sp + at) for at in (self.layout.saved_pc, self.layout.saved_kept, self.layout.saved_fp))
        return {"pc": pc, "sp": sp + self.layout.saved_bytes, "fp": fp, "kept": kept}

    def carrier(self, carriers):
        """The kernel thread that runs it: by the thread pointer, or by the kernel's number."""
        if self.state not in ("running", "parking"):
            return None
        found = carriers.get(self.fs)
        if found is None and self.activation:
            ids = [number(self.activation + at, 4) for at in (self.layout.tid, self.layout.task)]
            found = next((thread for thread in carriers.values() if thread.ptid[1] in ids and thread.ptid[1]), None)
        return found


def threads(layout):
    if not layout.leaves:
        return
    for index in range(number(layout.created, 4)):
        chunk, within = divmod(index, layout.chunk)
        leaf = number(layout.leaves + 8 * (chunk // layout.fan_out))
        if not leaf:
            continue
        place = 8 * (chunk % layout.fan_out)
        if not number(leaf + layout.ready + place) >> (within // layout.group) & 1:
            continue
        at = number(leaf + layout.chunks + place) + within * layout.object + layout.value
        if number(at + layout.tag, 4) == layout.free or number(at + layout.join) & layout.join_mask == layout.exited:
            continue
        if number(at + layout.flags, 1) & layout.kernel_thread:
            continue
        yield Thread(layout, index, at)


def find(layout, word):
    try:
        wanted = int(word)
    except ValueError:
        raise gdb.GdbError("A lightweight thread's number is needed (see `info raddle-threads`), not %r." % word)
    for thread in threads(layout):
        if thread.index == wanted:
            return thread
    raise gdb.GdbError("There is no lightweight thread %d." % wanted)


class Parked(Unwinder):
    """Takes a parked thread's registers for those of the caller of the innermost frame of one kernel thread."""

    def __init__(self):
        super().__init__("raddle")
        self.context = None
        self.below = None

    def show(self, context):
        pc, sp = registers()[:2]
        self.context = None
        gdb.invalidate_cached_frames()
        if context is not None:
            frame = gdb.newest_frame()
            self.below = (int(frame.read_register(pc)) & WORD, int(frame.read_register(sp)) & WORD)
            self.context = context
            gdb.invalidate_cached_frames()

    def hide(self, _=None):
        if self.context is not None:
            self.context = None
            gdb.invalidate_cached_frames()

    def __call__(self, pending):
        context = self.context
        if context is None:
            return None
        pc, sp, fp, kept, _ = registers()
        here = (pending.read_register(pc), pending.read_register(sp))
        if (int(here[0]) & WORD, int(here[1]) & WORD) != self.below:
            return None
        # The frame must seem to be called by the thread's: its stack lies below that.
        word = gdb.lookup_type("unsigned long")
        values = {name: gdb.Value(value & WORD).cast(word) for name, value in context.items()}
        below = gdb.Value(context["sp"] - 64).cast(word)
        info = pending.create_unwind_info(FrameId(below, here[0]))
        for register, name in ((pc, "pc"), (sp, "sp"), (fp, "fp"), (kept, "kept")):
            like = pending.read_register(register).type
            info.add_saved_register(register, values[name].cast(like))
        return info


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


PARKED = Parked()
register_unwinder(None, PARKED, replace=True)
gdb.events.cont.connect(PARKED.hide)


class Kept:
    """Goes back to the kernel thread and frame that were selected."""

    def __enter__(self):
        self.thread = gdb.selected_thread()
        if self.thread is None:
            raise gdb.GdbError("No kernel thread is selected.")
        self.context = PARKED.context
        PARKED.hide()

    def __exit__(self, *_):
        PARKED.hide()
        if self.thread.is_valid():
            self.thread.switch()


def carriers():
    """Kernel threads by their thread pointers."""
    found = {}
    pointer = registers()[4]
    selected = gdb.selected_thread()
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        try:
            found[int(gdb.newest_frame().read_register(pointer)) & WORD] = thread
        except (gdb.error, ValueError):
            # An older gdb does not know the register; then the kernel's numbers serve.
            found[-thread.ptid[1]] = thread
    # Back: in a core dump, some have no registers from which frames could be shown.
    selected.switch()
    found[SELECTED] = selected
    return found


def first_of(context):
    """The innermost frame of the parked thread that is shown."""
    pc, sp = registers()[:2]
    frame = gdb.newest_frame()
    while frame is not None and (frame.pc(), int(frame.read_register(sp)) & WORD) != (context["pc"], context["sp"]):
        frame = frame.older()
    if frame is None:
        raise gdb.GdbError("gdb does not unwind to the parked thread's frames.")
    return frame


def enter(thread, on):
    """Shows a thread in its kernel thread, or in the selected one if it is off a processor. Its innermost frame, or nothing."""
    context = thread.context()
    if context is not None:
        PARKED.hide()
        on[SELECTED].switch()
        PARKED.show(context)
        return first_of(context)
    PARKED.hide()
    kernel_thread = thread.carrier(on)
    if kernel_thread is None:
        return None
    kernel_thread.switch()
    return gdb.newest_frame()


def backtrace(frame, arguments=""):
    """gdb's own backtrace from this frame on, counted from 0."""
    skip = frame.level()
    text = gdb.execute("backtrace " + arguments, to_string=True) if not skip else None
    if text is not None:
        return text
    most = re.match(r"\s*(\d+)\s*$", arguments)
    if most:
        arguments = str(int(most.group(1)) + skip)
    text = gdb.execute("backtrace " + arguments, to_string=True)
    lines, on = [], False
    for line in text.splitlines(keepends=True):
        head = re.match(r"#(\d+)(\s+)", line)
        if head:
            on = int(head.group(1)) >= skip
            line = "#%-3d%s" % (int(head.group(1)) - skip, line[head.end():])
        if on or line.startswith("(More"):
            lines.append(line)
    return "".join(lines)


def is_runtimes(frame, library):
    name = frame.name() or ""
    if re.match(r"<?(raddle|core::|std::|alloc::)", name):
        return True
    at = gdb.solib_name(frame.pc()) or ""
    return bool(library) and at == library


def top(frame, library):
    """The innermost frame that is not the runtime's."""
    first = frame
    for _ in range(TOP_FRAMES):
        if frame is None:
            break
        if not is_runtimes(frame, library):
            line = frame.find_sal()
            where = " at %s:%d" % (line.symtab.filename, line.line) if line.symtab else ""
            return "%s ()%s" % (frame.name() or "%#x" % frame.pc(), where)
        frame = frame.older()
    return "%s ()" % (first.name() or "%#x" % first.pc())


class InfoThreads(gdb.Command):
    """List lightweight threads: number, state, name, innermost frame of the program, what each waits for.
Usage: info raddle-threads"""

    def __init__(self):
        super().__init__("info raddle-threads", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        layout = Layout()
        library = gdb.solib_name(layout.address)
        count = 0
        with Kept():
            on = carriers()
            for thread in threads(layout):
                count += 1
                try:
                    frame = enter(thread, on)
                    place = top(frame, library) if frame is not None else "-"
                except (gdb.error, gdb.GdbError) as error:
                    place = "<%s>" % error
                waits = thread.waits_for()
                waits = ", waits for " + waits if waits else ""
                gdb.write("%5d  %-8s %-17s %s%s\n" % (thread.index, thread.state, thread.name or "-", place, waits))
        gdb.write("%d lightweight threads\n" % count)


class Raddle(gdb.Command):
    """Lightweight threads: `raddle bt N`, `raddle thread N`, `raddle apply all bt`; `info raddle-threads` lists them."""

    def __init__(self):
        super().__init__("raddle", gdb.COMMAND_STACK, prefix=True)


def show_backtrace(thread, on, arguments):
    gdb.write('\nLightweight thread %d "%s" (%s):\n' % (thread.index, thread.name, thread.state))
    try:
        frame = enter(thread, on)
        gdb.write(backtrace(frame, arguments) if frame is not None else "It has no frames.\n")
    except (gdb.error, gdb.GdbError) as error:
        gdb.write("<%s>\n" % error)


class Backtrace(gdb.Command):
    """Show the backtrace of a lightweight thread.
Usage: raddle bt NUMBER [arguments of backtrace]"""

    def __init__(self):
        super().__init__("raddle bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        layout = Layout()
        word, _, rest = argument.strip().partition(" ")
        thread = find(layout, word)
        with Kept():
            show_backtrace(thread, carriers(), rest)


class Apply(gdb.Command):
    """Show the backtraces of all lightweight threads.
Usage: raddle apply all bt [arguments of backtrace]"""

    def __init__(self):
        super().__init__("raddle apply", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = argument.split(None, 2)
        if len(words) < 2 or words[0] != "all" or words[1] not in ("bt", "backtrace"):
            raise gdb.GdbError("Usage: raddle apply all bt [arguments of backtrace]")
        layout = Layout()
        with Kept():
            on = carriers()
            for thread in threads(layout):
                show_backtrace(thread, on, words[2] if len(words) > 2 else "")


class Select(gdb.Command):
    """Select a lightweight thread, so that `up`, `down` and `info locals` work in its frames; without a number: none.
It lasts until the program goes on. Above a parked thread's frames the backtrace shows one of a kernel thread.
Usage: raddle thread [NUMBER]"""

    def __init__(self):
        super().__init__("raddle thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if not argument.strip():
            PARKED.hide()
            return
        thread = find(Layout(), argument.strip())
        with Kept():
            on = carriers()
        frame = enter(thread, on)
        if frame is None:
            raise gdb.GdbError("Lightweight thread %d has no frames: it is %s." % (thread.index, thread.state))
        frame.select()
        gdb.execute("frame")


# The runtime tells its kernel threads something by the highest signals that are free: no reason to stop.
gdb.execute("handle SIG62 SIG63 SIG64 nostop noprint pass", to_string=True)

InfoThreads()
Raddle()
Backtrace()
Apply()
Select()
