package inspector

import "time"

// SetWriteTime replaces how long a statement of the console may keep an actor from writing.
func SetWriteTime(d time.Duration) { writeTime = d }
