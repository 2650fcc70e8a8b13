// Answers a challenge: ALTCHA's widget does the sum in workers, and shows that it does.
//
// Few visits need it, so nothing of it is loaded before. The widget is vendored and unchanged; its
// words are ours, its links and its watching of the pointer are off.

const file = (name) => new URL(name, import.meta.url).href;
const WORKER = file("./altcha-worker.js");

/** The page's policy lets nothing run but by a policy with a name: this one knows one address. */
const policy = globalThis.trustedTypes?.createPolicy("catraca-challenge", {
  createScriptURL(url) {
    if (url !== WORKER) throw new TypeError("not our worker");
    return url;
  },
});

let loaded = null;
let tries = 0;

/** The widget, once it has come. What did not come is asked for again the next time. */
function widgetLoaded() {
  loaded ??= load().catch((error) => {
    loaded = null;
    throw error;
  });
  return loaded;
}

async function load() {
  // Some browsers keep the failure of an address, so each try has one of its own.
  const again = tries === 0 ? "" : `?again=${tries}`;
  tries += 1;
  await import(file("./altcha.js") + again);
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = file("./altcha.css");
  document.head.append(style);
  const worker = () => new Worker(policy ? policy.createScriptURL(WORKER) : WORKER);
  globalThis.$altcha.algorithms.set("PBKDF2/SHA-256", worker);
  // The footer is markup in a string, which the page's policy forbids.
  globalThis.$altcha.defaults.set({
    hideFooter: true, hideLogo: true, humanInteractionSignature: false, minDuration: 0,
  });
}

/** Shows the widget in `host` until it has the answer; throws where it finds none. */
export async function answer(host, challenge, language, t) {
  await widgetLoaded();
  const { i18n } = globalThis.$altcha;
  i18n.set(language.toLowerCase(), {
    ...i18n.get("en"), label: t.check_label, verifying: t.check_verifying, waitAlert: t.check_verifying,
    verified: t.check_verified, error: t.check_error, expired: t.check_error,
  });
  const widget = document.createElement("altcha-widget");
  const answered = new Promise((resolve, reject) => {
    widget.addEventListener("verified", ({ detail }) => resolve(detail.payload));
    widget.addEventListener("statechange", ({ detail }) => {
      if (detail.state === "error") reject(new Error("no answer"));
    });
  });
  const attributes = {
    auto: "onload", language: language.toLowerCase(), challenge: JSON.stringify(challenge),
  };
  for (const [name, value] of Object.entries(attributes)) widget.setAttribute(name, value);
  host.replaceChildren(widget);
  host.hidden = false;
  try {
    return await answered;
  } finally {
    host.hidden = true;
    host.replaceChildren();
  }
}
