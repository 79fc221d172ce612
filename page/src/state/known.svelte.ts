// What the catalog says that titles and changes of a scenario need.
class Known {
  /** Names of whole systems, once they have come: they are not multiplied. */
  systems = $state.raw<ReadonlySet<string>>(new Set());
}

export const known = new Known();
