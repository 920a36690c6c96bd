// The end of a process that does not tear its environments down (process.exit, an uncaught error): engines stop before what
// their threads use is cleaned up.
#pragma once

#include "fabric.hpp"

namespace moriarty {

// Engines that are at work. Any thread.
void enlist(Fabric* engine);
void delist(Fabric* engine);

// From now on an exit stops all engines before it cleans up whatever has been loaded until now. Exit handlers and the
// destructors of libraries run in the reverse order of their registration, and a library registers when it is loaded. So
// this is said again after each step that may load one; it costs nothing when none was. Any thread.
void stopFirstAtExit();

}  // namespace moriarty
