import "./fonts.css";
import "./tokens.css";
import "./ui.css";
import "./why.css";
import { mount } from "svelte";
import App from "./App.svelte";

mount(App, { target: document.getElementById("app")! });
