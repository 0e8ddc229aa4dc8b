package main

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/fescue-dev/fescue/internal/cli"
)

// completeForKubectl is what kubectl runs to complete `kubectl fescue …`.
const completeForKubectl = "#!/bin/sh\nexec kubectl fescue __complete \"$@\"\n"

// documents returns the man pages and completions of the program, and what kubectl needs to complete it as a plugin.
func documents(at time.Time, version string) ([]file, error) {
	files := []file{{name: "kubectl_complete-fescue", content: []byte(completeForKubectl), executable: true}}
	root := cli.NewCommand()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	for name, generate := range map[string]func(io.Writer) error{
		"fescue.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_fescue":     root.GenZshCompletion,
		"fescue.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"fescue.ps1":  root.GenPowerShellCompletionWithDesc,
	} {
		var text bytes.Buffer
		if err := generate(&text); err != nil {
			return nil, err
		}
		files = append(files, file{name: "completions/" + name, content: text.Bytes()})
	}
	dir, err := os.MkdirTemp("", "fescue-man-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	header := &doc.GenManHeader{Title: "FESCUE", Section: "1", Date: &at, Source: "Fescue " + version, Manual: "Fescue"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return nil, err
	}
	pages, err := readFolder(dir, "man/man1")
	return append(files, pages...), err
}
