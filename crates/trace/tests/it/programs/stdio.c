/* Streams: without an argument the standard output alone, otherwise a file, too. */
#include <stdio.h>

int main(int count, char **args) {
    puts("standard");
    if (count == 1) return 0;
    FILE *file = fopen(args[1], "w");
    for (int line = 0; line < 5000; line++) fprintf(file, "line %d\n", line);
    return fclose(file);
}
