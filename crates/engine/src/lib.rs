//! Compares desired with live, judges health, plans a sync step, builds the resource tree.
