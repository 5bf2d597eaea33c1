package gateway

/*
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

// glibc has it, musl does not: https://man7.org/linux/man-pages/man3/malloc_trim.3.html
extern int malloc_trim(size_t pad) __attribute__((weak));

static void trim(void) {
	if (malloc_trim)
		malloc_trim(0);
}

// unmap_program takes the pages of the program's file out of the process's memory. It
// leaves out segments that the program may write to: their pages may differ from the
// file's.
static int unmap_program(struct dl_phdr_info *info, size_t size, void *unused) {
	size_t page = sysconf(_SC_PAGESIZE);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W)) {
			size_t from = (info->dlpi_addr + segment->p_vaddr) & ~(page - 1);
			madvise((void *)from, info->dlpi_addr + segment->p_vaddr + segment->p_memsz - from, MADV_DONTNEED);
		}
	}
	return 1; // the first object is the program, the others are libraries
}

static void release_program(void) { dl_iterate_phdr(unmap_program, NULL); }
*/
import "C"

// trimC returns memory to the system that SQLite has freed. The C library by itself keeps it, in an
// arena for each thread that was needed under load.
func trimC() { C.trim() }

// releaseProgram takes the pages of the program's file out of the process's memory.
// Those that are needed come back from the kernel's cache.
func releaseProgram() { C.release_program() }
