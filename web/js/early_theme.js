// SPDX-License-Identifier: Apache-2.0
// Loaded before the first paint, so that a chosen theme does not flash in the other one.
try {
  const chosen = localStorage.getItem('carillon.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is forbidden: the system's theme it is.
}
