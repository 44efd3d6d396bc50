// What a result quotes is cut from the article's words; left alone, it is cut from the page's buttons and blanks.
const pageText = Search.htmlToText;
Search.htmlToText = (html, anchor) => {
  const article = new DOMParser().parseFromString(html, "text/html").querySelector("article");
  if (!article) return pageText(html, anchor);
  article.querySelectorAll("script, style, svg, .headerlink").forEach((part) => part.remove());
  const part = (anchor && article.querySelector(anchor)) || article;
  return part.textContent.replace(/\s+/g, " ");
};
