// Before the first paint: the theme chosen earlier, else the system's.
(function () {
  var kept = null;
  try { kept = localStorage.getItem("rooflab.theme"); } catch (e) { /* storage may be closed to us */ }
  var dark = kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
