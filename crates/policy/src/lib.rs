//! Answers \"may they?\" and \"may it now?\": projects and sync windows.
