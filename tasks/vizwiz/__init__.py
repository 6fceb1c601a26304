"""VizWiz-Captions: captions of photographs that blind people took."""
