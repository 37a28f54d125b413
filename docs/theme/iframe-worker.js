/* Search in pages that are opened as files. A browser starts no worker from a file, so this one runs the script in a
   hidden frame instead. Same interface as Worker, as far as the theme's search uses it. Nothing is loaded from a network. */
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      this.inside = this.frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source === this.inside) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
          if (this.onmessage) this.onmessage(event);
        }
      });
      const setUp = () => {
        window.postMessage = (data, target) => parent.postMessage(data, target || "*");
        window.importScripts = (...urls) =>
          urls.reduce(
            (before, one) =>
              before.then(
                () =>
                  new Promise((loaded, failed) => {
                    const script = document.createElement("script");
                    Object.assign(script, { src: one, onload: loaded, onerror: failed });
                    document.body.appendChild(script);
                  })
              ),
            Promise.resolve()
          );
      };
      this.ready = new Promise((loaded) => {
        const page = this.inside.document;
        page.open();
        page.write(`<html><body><script>(${setUp})()<\/script><script src="${url}"><\/script></body></html>`);
        page.close();
        this.inside.onload = loaded;
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
    }
    terminate() {
      this.frame.remove();
    }
  }
  window.Worker = FrameWorker;
}
