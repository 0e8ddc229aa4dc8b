// Package scenario reads and runs scenarios: archives that tell what happens to objects, step by
// step, and what is expected after each.
//
// A scenario is a txtar archive, like a script of testscript: first the steps, one command a line,
// then the files that they name, then for each step what is expected after it.
//
// It knows the format, and simulate.Cluster, on which scenarios run. It does not know the command
// line or the file system.
package scenario
