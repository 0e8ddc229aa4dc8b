package schema

// Reach returns how many names of a path of fields can exist in a value that the schema
// allows: all of them unless the path cannot exist.
func (s *Schema) Reach(names []string) int {
	switch {
	case s.Reference != nil:
		return s.Reference.Reach(names)
	case len(names) == 0:
		return 0
	case len(s.Alternatives) > 0:
		most := 0
		for _, a := range s.Alternatives {
			most = max(most, a.Reach(names))
		}
		return most
	case s.Types&Struct == 0:
		return 0
	case s.Struct == nil || s.PreserveAll || s.Embedded || s.Eval != nil || s.Struct.expects(names[0]) && s.Struct.Field(names[0]) == nil:
		return len(names)
	}
	return s.Struct.reach(names)
}

func (s *StructSchema) reach(names []string) int {
	most := 0
	if f := s.Field(names[0]); f != nil {
		most = 1 + f.Schema.Reach(names[1:])
	}
	for _, c := range s.Conditions {
		most = max(most, c.Then.reach(names))
	}
	return most
}

// FieldNames returns the names of the fields at a path of fields, as far as they are known.
func (s *Schema) FieldNames(path []string) []string {
	switch {
	case s.Reference != nil:
		return s.Reference.FieldNames(path)
	case len(s.Alternatives) > 0:
		var names []string
		for _, a := range s.Alternatives {
			names = append(names, a.FieldNames(path)...)
		}
		return names
	case s.Struct == nil:
		return nil
	}
	return s.Struct.fieldNames(path)
}

func (s *StructSchema) fieldNames(path []string) []string {
	var names []string
	if len(path) == 0 {
		for _, f := range s.Fields {
			names = append(names, f.Name)
		}
	} else if f := s.Field(path[0]); f != nil {
		names = f.Schema.FieldNames(path[1:])
	}
	for _, c := range s.Conditions {
		names = append(names, c.Then.fieldNames(path)...)
	}
	return names
}
