package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one of an archive.
type file struct {
	name       string
	content    []byte
	executable bool
}

func (f file) mode() int64 {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// readFolder returns the files of a folder, under another name.
func readFolder(dir, as string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		files = append(files, file{name: path.Join(as, filepath.ToSlash(relative)), content: content})
		return err
	})
	return files, err
}

// sorted returns files by name, so that an archive has one order.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// writeTar writes an archive in which nothing depends on when, where and by whom it is written.
func writeTar(w io.Writer, at time.Time, files []file, compress bool) error {
	if compress {
		z := gzip.NewWriter(w) // its header has no time and no name
		if err := writeTar(z, at, files, false); err != nil {
			return err
		}
		return z.Close()
	}
	archive := tar.NewWriter(w)
	for _, f := range sorted(files) {
		header := &tar.Header{Name: f.name, Mode: f.mode(), Size: int64(len(f.content)), ModTime: at,
			Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeZip is writeTar for Windows.
func writeZip(w io.Writer, at time.Time, files []file) error {
	archive := zip.NewWriter(w)
	for _, f := range sorted(files) {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(fs.FileMode(f.mode()))
		part, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// archiveAll writes an archive for each platform: the program, its man pages and its completions.
func (d *dist) archiveAll(context.Context) error {
	common, err := documents(d.time, d.version)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(d.source, "LICENSE"))
	if err != nil {
		return err
	}
	common = append(common, file{name: "LICENSE", content: license})
	for _, b := range d.builds {
		program, err := os.ReadFile(b.program)
		if err != nil {
			return err
		}
		files := append(slices.Clone(common), file{name: b.name(), content: program, executable: true})
		err = d.write(b.archive, func(w io.Writer) error {
			if strings.HasSuffix(b.archive, ".zip") {
				return writeZip(w, d.time, files)
			}
			return writeTar(w, d.time, files, true)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
