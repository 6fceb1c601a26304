(() => {
  "use strict";
  // The cookie lets in from here on; an address without the token can be sent to others on this machine.
  const address = new URL(location.href);
  if (address.searchParams.has("token")) {
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }
})();
