/* Appends four entries to a journal and tells of each: log KIND, where KIND is `new` (the journal is made) or `old`, then `sync`, then
 * `folder`, which syncs the folder of the new journal as well. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    int is_new = count > 1 && strcmp(words[1], "new") == 0, synced = count > 2;
    int journal = open("journal", O_WRONLY | O_APPEND | (is_new ? O_CREAT | O_EXCL : 0), 0600);
    int here = count > 3 ? open(".", O_RDONLY | O_DIRECTORY) : -1;
    if (here >= 0 && fsync(here)) return 2;
    for (int number = 1; journal >= 0 && number <= 4; number++) {
        char entry[33];
        snprintf(entry, sizeof entry, "entry %-25d\n", number);
        if (write(journal, entry, 32) != 32 || (synced && fsync(journal))) return 2;
        dprintf(1, "entry %d\n", number);
    }
    return journal < 0;
}
