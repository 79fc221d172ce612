// The cards of the sources behind a machine's figures.
import type { RulesReport } from "../../contract";

/** The key of the card of the device's sheet; nothing where the device is of the reader's own making. */
export const sheetCard = (cards: RulesReport["sources"]): string => cards.find((card) => card.gives.some((what) => what.startsWith("device")))?.key ?? "";
