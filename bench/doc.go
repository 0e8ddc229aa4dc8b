// Package bench compares Fescue with its alternatives. It is a module of its own, so that Fescue
// does not depend on them.
package bench
