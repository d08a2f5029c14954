/* Runs kernels of an object file on buffers between pages that must not be touched.

   Reads programs from standard input: number of the table, steps, inputs, outputs, buffers, then
   the size and the bytes of every buffer. Writes the outputs' bytes. The argument says at which
   end the buffers touch a forbidden page: "start" or "end". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef long kernel(void **slots, long *index, long *sizes, long begin, long end, void *error);
struct step { kernel *run; long where, parallel; };

#include "tables.h" /* static struct step *steps[]; static long *indices[]; SCRATCH, MOST */

enum { PAGE = 65536 };

static void *guarded(long size, int at_end) {
    long whole = (size + PAGE - 1) / PAGE * PAGE;
    char *p = mmap(0, whole + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE)
        || mprotect(p + PAGE + whole, PAGE, PROT_NONE))
        exit(3);
    return p + PAGE + (at_end ? whole - size : 0);
}

static void take(void *to, long size) {
    if (size && fread(to, 1, size, stdin) != (size_t)size)
        exit(4);
}

int main(int count, char **arguments) {
    int at_end = count > 1 && !strcmp(arguments[1], "end");
    long head[5];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        long *sizes = malloc(head[4] * sizeof(long) + 8);
        void **slots = malloc(head[4] * sizeof(void *) + 8);
        take(sizes, head[4] * sizeof(long));
        for (long n = 0; n < head[4]; n++) {
            slots[n] = guarded(sizes[n], at_end);
            take(slots[n], sizes[n]);
        }
        for (long n = 0; n < head[1]; n++) {
            struct step s = steps[head[0]][n];
            long *index = indices[head[0]] + s.where, none[1] = {0};
            long error[4] = {0, 0, (long)guarded(SCRATCH, 0), 0};
            long all = s.parallel ? s.run(slots, index, none, 0, -1, error) : 0;
            all = all < 0 ? -all : all & MOST; /* negative, or marked: for few or no threads */
            long half = all / 2;
            if (s.run(slots, index, none, 0, half, error))
                exit(5);
            if (s.parallel && s.run(slots, index, none, half, all, error))
                exit(5);
        }
        for (long n = head[2]; n < head[2] + head[3]; n++)
            fwrite(slots[n], 1, sizes[n], stdout);
    }
    return 0;
}
