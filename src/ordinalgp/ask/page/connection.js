// Requests to the server. A request is sent until it is answered: the server may be started again
// in between, and knows by its key an answer that it has kept already.

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 4000;
const PATIENCE = 15000;

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Rejected extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export class Connection {
  // `onLost(reason)` is called when a request gets no answer, and `onFound()` when one does again.
  constructor({ onLost, onFound, onSession }) {
    this.onLost = onLost;
    this.onFound = onFound;
    this.onSession = onSession;
    this.lost = false;
    this.failing = 0; // requests that are being repeated
    this.session = null;
  }

  async begin() {
    const session = await this.get("/api/session");
    this.session = session;
    this.onSession(session);
    return session;
  }

  get(path) {
    return this.#untilAnswered(() => fetch(path, this.#options()));
  }

  post(path, content) {
    return this.#untilAnswered(() =>
      fetch(path, {
        ...this.#options(),
        method: "POST",
        headers: { "content-type": "application/json", "x-ordinalgp-token": this.session.token },
        body: JSON.stringify(content),
      }),
    );
  }

  // One look at what changes by itself; nothing is repeated, as the next look comes soon.
  async look(path) {
    try {
      const response = await fetch(path, this.#options());
      if (this.#isDown(response.status)) throw new Error(await response.text());
      if (!this.failing) this.#found();
      return response.status === 200 ? await response.json() : null;
    } catch (error) {
      if (!this.failing) this.#lose("");
      return null;
    }
  }

  #options() {
    return { cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE) };
  }

  #isDown(status) {
    return status === 429 || status >= 500;
  }

  async #untilAnswered(send) {
    let repeated = false;
    const answered = () => {
      if (repeated) this.failing -= 1;
      if (!this.failing) this.#found();
    };
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      let reason = "";
      try {
        const response = await send();
        if (response.ok) {
          const content = await response.json();
          answered();
          return content;
        }
        reason = await response.text();
        if (!this.#isDown(response.status)) {
          answered();
          throw new Rejected(response.status, reason);
        }
      } catch (error) {
        if (error instanceof Rejected) throw error;
      }
      if (!repeated) this.failing += 1;
      repeated = true;
      this.#lose(reason);
      await wait(pause);
    }
  }

  #lose(reason) {
    this.lost = true;
    this.onLost(reason);
  }

  #found() {
    if (!this.lost) return;
    this.lost = false;
    this.onFound();
  }
}
