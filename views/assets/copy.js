// Adds a button that copies to each text marked with `data-copied-text`, which is the name of the button. The layout of the console has its texts.
const texts = document.querySelector('[data-copy]')?.dataset;
const marked = document.querySelectorAll('[data-copied-text]');
const SHOWN_MS = 2000;

// The texts for people who copy without a button, marked with `data-without-copy`, are hidden.
// Browsers offer the clipboard only over HTTPS and on this computer.
const hasButtons = navigator.clipboard && texts;
for (const hint of hasButtons ? document.querySelectorAll('[data-without-copy]') : [])
  hint.hidden = true;
for (const source of hasButtons ? marked : []) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  const name = source.dataset.copiedText || texts.copy;
  button.textContent = texts.copy;
  button.setAttribute('aria-label', name);
  button.setAttribute('aria-live', 'polite');
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = texts.copied;
    button.setAttribute('aria-label', texts.copied);
    setTimeout(() => {
      button.textContent = texts.copy;
      button.setAttribute('aria-label', name);
    }, SHOWN_MS);
  });
  // A sample is selected as a whole by a click: the button stays outside.
  (source.closest('.copied') ?? source).after(button);
}
