// Sets the chosen theme before anything is painted. A file of its own: the content security policy allows no inline script.
try {
  const theme = localStorage.getItem('holdfast.theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch {
  // Storage may be forbidden; the system's theme is then used.
}
