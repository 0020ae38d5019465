//! The loader's tables of modules with thread-local storage, read by the descriptors that it exports for debuggers.

use super::Unsupported;
use super::layout::Libc;
use core::ffi::{CStr, c_int, c_void};

/// Module numbers of all loaded modules that have TLS, and its size.
pub fn modules() -> Vec<(usize, usize)> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, and `data` is the vector below.
        unsafe {
            let info = &*info;
            if size >= core::mem::offset_of!(libc::dl_phdr_info, dlpi_tls_data) && info.dlpi_tls_modid != 0 {
                for i in 0..info.dlpi_phnum as usize {
                    let header = &*info.dlpi_phdr.add(i);
                    if header.p_type == libc::PT_TLS {
                        (*data.cast::<Vec<(usize, usize)>>()).push((info.dlpi_tls_modid, header.p_memsz as usize));
                    }
                }
            }
        }
        0
    }
    let mut found: Vec<(usize, usize)> = Vec::new();
    // SAFETY: the callback does not unwind and fits the vector.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// The loader's list of modules with TLS, as its debugger descriptors lay it out.
#[derive(Debug)]
pub struct Tables {
    /// The word that points to the first node.
    head: usize,
    length: usize,
    next: usize,
    slots: usize,
    slot_size: usize,
    slot_gen: usize,
    slot_map: usize,
    map_offset: usize,
}

impl Tables {
    pub fn find(libc_so: &Libc) -> Result<Tables, Unsupported> {
        let offset = |name: &CStr| -> Result<usize, Unsupported> {
            let address = libc_so.need(name)?;
            // SAFETY: a descriptor of three words.
            Ok(unsafe { address.cast::<[u32; 3]>().read() }[2] as usize)
        };
        let slot_size = libc_so.need(c"_thread_db_sizeof_dtv_slotinfo")?;
        Ok(Tables {
            head: libc_so.need(c"_rtld_global")?.addr() + offset(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?,
            length: offset(c"_thread_db_dtv_slotinfo_list_len")?,
            next: offset(c"_thread_db_dtv_slotinfo_list_next")?,
            slots: offset(c"_thread_db_dtv_slotinfo_list_slotinfo")?,
            // SAFETY: a size descriptor of one word.
            slot_size: unsafe { slot_size.cast::<u32>().read() } as usize,
            slot_gen: offset(c"_thread_db_dtv_slotinfo_gen")?,
            slot_map: offset(c"_thread_db_dtv_slotinfo_map")?,
            map_offset: offset(c"_thread_db_link_map_l_tls_offset")?,
        })
    }

    /// The address of a module's slot, or the word that will point to the node it will be in.
    fn slot(&self, module: usize) -> Result<usize, usize> {
        let (mut link, mut index) = (self.head, module);
        loop {
            let node = load(link);
            if node == 0 {
                return Err(link);
            }
            let length = load(node + self.length);
            if index < length {
                return Ok(node + self.slots + index * self.slot_size);
            }
            index -= length;
            link = node + self.next;
        }
    }

    /// Where a module's static TLS begins relative to the thread pointer; `None` when it is allocated on demand.
    pub fn static_offset(&self, module: usize) -> Option<isize> {
        let map = load(self.slot(module).ok()? + self.slot_map);
        let offset = if map == 0 { 0 } else { load(map + self.map_offset) };
        // 0, -1 and -2 mean: none, not decided, on demand.
        if offset == 0 || offset > 1 << 30 {
            return None;
        }
        Some(if cfg!(target_arch = "x86_64") { -(offset as isize) } else { offset as isize })
    }

    /// Whether a module came after the program had started.
    pub fn came_later(&self, module: usize) -> bool {
        self.slot(module).is_ok_and(|slot| load(slot + self.slot_gen) > 1)
    }

    /// The words that change when a module with TLS comes or goes, and the highest module number in use.
    pub fn watch(&self) -> (Vec<(usize, usize)>, usize) {
        let mut words = Vec::new();
        for module in 1.. {
            match self.slot(module) {
                Ok(slot) => {
                    let (generation, map) = (slot + self.slot_gen, slot + self.slot_map);
                    let free = load(map) == 0;
                    // Modules of the start have generation 0 or 1 and never go: only their offset could be interesting.
                    if free || load(generation) > 1 {
                        words.push((generation, load(generation)));
                        words.push((map, load(map)));
                    }
                    if free {
                        return (words, module - 1);
                    }
                }
                Err(link) => {
                    words.push((link, 0));
                    return (words, module - 1);
                }
            }
        }
        unreachable!("the list of modules is finite")
    }
}

/// A word of the loader's tables.
fn load(address: usize) -> usize {
    // SAFETY: callers walk the loader's live tables by its own descriptors.
    unsafe { (address as *const usize).read_volatile() }
}
