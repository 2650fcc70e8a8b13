// Runs around the framed pages: plays each frame's steps, looks at what each page says to a reader,
// and sends it to the stage.
//
// The steps stand after the # of a frame's address, with commas between: a state to wait for, or
// `same` (says what the next frame says), or `leave` or `reload` to do.

const frames = [...document.querySelectorAll("iframe")];
const deadline = Date.now() + 30_000;

function look(frame) {
  const page = frame.contentDocument;
  const main = page.querySelector("main");
  const shown = (selector) => [...page.querySelectorAll(selector)]
    .filter((node) => !node.closest("[hidden]"));
  const seen = (selector) => shown(selector).map((node) => node.textContent.trim());
  const attributes = [...page.querySelectorAll("*")].flatMap((node) => node.getAttributeNames());
  return {
    lang: page.documentElement.lang,
    tab: page.title,
    name: seen("#name"),
    state: main.dataset.state,
    number: main.dataset.number ?? null,
    position: main.dataset.position ?? null,
    title: seen("h1"),
    texts: seen("#texts p"),
    notice: seen("#notice p"),
    big: seen("#position-name, #position-number, #position-help"),
    facts: seen("#facts dt, #facts dd"),
    message: seen("#message h2, #message p"),
    enter: shown("#enter").map((node) => [node.textContent, node.getAttribute("href")]),
    join: seen("#join"),
    kept: seen("#kept"),
    draw: seen("#draw summary, #draw-texts p, #draw-seal"),
    checked: seen("#draw-checked").filter(Boolean),
    leave: seen("#leave, #leaving summary"),
    languages: [...page.querySelectorAll("#languages a")]
      .map((link) => [link.lang, link.textContent, link.getAttribute("aria-current")]),
    inline: page.querySelectorAll("[style], style, script:not([src])").length,
    handlers: attributes.filter((name) => name.startsWith("on")).length,
  };
}

/** Waits until it holds, or until the deadline: then the test sees what does not. */
async function until(holds) {
  while (Date.now() < deadline && !holds()) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function isReady(frame) {
  const page = frame.contentDocument;
  return page?.readyState === "complete" && page.querySelector("main:not([data-old])");
}

async function play(frame, next) {
  const steps = frame.getAttribute("src").split("#")[1]?.split(",") ?? [];
  await until(() => isReady(frame));
  for (const step of steps) {
    const page = frame.contentDocument;
    if (step === "leave") {
      page.querySelector("#leave").click();
      page.querySelector("#leave-yes").click();
    } else if (step === "reload") {
      page.querySelector("main").dataset.old = "";
      frame.contentWindow.location.reload();
    } else if (step === "same") {
      const said = (page) => JSON.stringify({ ...look(page), checked: null });
      await until(() => isReady(next) && said(frame) === said(next));
    } else {
      await until(() => isReady(frame)
        && frame.contentDocument.querySelector("main").dataset.state === step);
    }
  }
}

Promise.all(frames.map((frame, at) => play(frame, frames[at + 1])))
  .then(() => fetch("/collected", { method: "POST", body: JSON.stringify(frames.map(look)) }));
