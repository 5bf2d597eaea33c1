package gateway

/*
#include <stddef.h>

// glibc has it, musl does not: https://man7.org/linux/man-pages/man3/malloc_trim.3.html
extern int malloc_trim(size_t pad) __attribute__((weak));

static void trim(void) {
	if (malloc_trim)
		malloc_trim(0);
}
*/
import "C"

// trimC gives back what SQLite has freed. The C library by itself keeps it, in
// an arena for each of the threads that a crowd has needed.
func trimC() { C.trim() }
