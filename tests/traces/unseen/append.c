/* It appends to what its shell has opened. */
#include "said.h"
int main(void) {
    put(4, 33);
    lseek(4, 0, SEEK_SET);
    put(4, 33);
    say();
}
