package ir

import "reflect"

// mapIdentity tells maps apart, whatever is in them.
func mapIdentity(m map[string]any) uintptr { return reflect.ValueOf(m).Pointer() }
