// Shows times in the reader's own zone and puts new mails into the list.
const localTimes = (root) => {
  for (const t of root.querySelectorAll("time")) {
    t.textContent = new Date(t.dateTime).toLocaleString(document.documentElement.lang);
  }
};

const refresh = async () => {
  if (document.hidden) return;
  const list = document.getElementById("mails");
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("mails");
  if (!fresh || fresh.dataset.newest === list.dataset.newest) return;
  const focused = document.activeElement?.getAttribute("href");
  list.dataset.newest = fresh.dataset.newest;
  list.replaceChildren(...fresh.childNodes);
  localTimes(list);
  if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
};

localTimes(document);
setInterval(() => refresh().catch(() => {}), 3000);
