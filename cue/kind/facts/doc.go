// Package facts collects what the source of a behaviour shows without any object, and without types unless check gives
// them to the reader of a conversion: its children and transitions, which phases an object can be in, which children
// are corrected. Loading needs these facts, explain shows them, and check asks for some.
//
// What the syntax does not show counts as anything: a transition whose target is computed may lead to each phase.
package facts
