// trying counts the writes whose answer did not come and that are asked for again.
export const trying = $state({ count: 0 })
