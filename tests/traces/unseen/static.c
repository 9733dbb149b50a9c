#include "said.h"
int main(void) {
    put(make("static"), 4321);
    say();
}
