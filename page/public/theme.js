// Before the first paint: the theme chosen earlier, else the system's. Browsers run no modules from a disk: that is said.
(function () {
  var kept = null;
  try { kept = localStorage.getItem("rooflab.theme"); } catch (e) { /* storage may be closed to us */ }
  var dark = kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  if (location.protocol === "file:") addEventListener("DOMContentLoaded", function () {
    document.getElementById("app").textContent = "RoofLab’s page needs a web server: run python3 -m http.server in this folder, and open http://localhost:8000";
  });
})();
