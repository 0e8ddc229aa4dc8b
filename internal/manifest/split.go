package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"unicode/utf8"
)

// chunk is the text of one document. line and column are how far its beginning is from
// that of the file.
type chunk struct {
	text         []byte
	line, column int
	// json means that the document is from a stream of JSON. Its numbers are read as JSON:
	// 1.0 is an integer only in YAML.
	json bool
}

// splitJSON cuts a stream of JSON objects into documents, as kubectl does: they need nothing
// between them. It returns none for any other text.
func splitJSON(text []byte) []chunk {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return nil
	}
	var chunks []chunk
	next := chunk{json: true}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for start := int64(0); ; start = decoder.InputOffset() {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return chunks
		} else if err != nil {
			return nil
		}
		next.text = text[start:decoder.InputOffset()]
		chunks = append(chunks, next)
		if i := bytes.LastIndexByte(next.text, '\n'); i >= 0 {
			next.line += bytes.Count(next.text, []byte("\n"))
			next.column = utf8.RuneCount(next.text[i+1:])
		} else {
			next.column += utf8.RuneCount(next.text)
		}
	}
}

// separator begins the line between two documents.
var separator = []byte("---")

// splitYAML cuts a text into documents by the rule of the API machinery's YAMLReader:
// at lines that begin with three dashes. It returns as well the lines, counted from 0,
// of separators that are followed by anything but a comment, which that reader
// rejects; the document that begins on such a line is left out. Like that reader, it ends the
// last line if the file does not: in a block scalar, the newline is part of the value.
func splitYAML(text []byte) (chunks []chunk, rejected []int) {
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(slices.Clip(text), '\n')
	}
	line, start := 0, 0
	next := chunk{}
	skip := false
	flush := func(end int) {
		next.text = text[start:end]
		if !skip {
			chunks = append(chunks, next)
		}
	}
	end := 0
	for l := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(l, separator); ok {
			flush(end)
			start, next.line = end+len(l), line+1
			rest = bytes.TrimSpace(rest)
			if skip = len(rest) > 0 && rest[0] != '#'; skip {
				rejected = append(rejected, line)
			}
		}
		line++
		end += len(l)
	}
	flush(end)
	return chunks, rejected
}
