//! Turns a tree of files and a source description into objects.
