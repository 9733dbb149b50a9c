//! Drawings as PDF, their fonts embedded.

use std::sync::Arc;

use svg2pdf::usvg::fontdb::{Database, Family, Query};
use svg2pdf::usvg::{Options, Tree};
use svg2pdf::{ConversionOptions, PageOptions};

use crate::export::Exported;

/// Families that a chart's text is set in, where the host has them; else any that it has.
const SANS: [&str; 6] = ["Liberation Sans", "DejaVu Sans", "Noto Sans", "Arial", "Helvetica", "Nimbus Sans"];

/// The fonts of the host.
fn fonts() -> Database {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let has =
        |name: &&str| fonts.query(&Query { families: &[Family::Name(name)], ..Query::default() }).is_some();
    let any = || fonts.faces().next().and_then(|face| Some(face.families.first()?.0.clone()));
    if let Some(name) = SANS.iter().find(|name| has(name)).map(|name| (*name).to_owned()).or_else(any) {
        fonts.set_sans_serif_family(name);
    }
    fonts
}

/// Adds a PDF for each SVG. A PDF without its text would be wrong, so there is none on a host without fonts.
pub(crate) fn add(files: &mut Vec<Exported>) -> Result<(), String> {
    let fonts = fonts();
    if fonts.is_empty() {
        return Err("this host has no font to set their text in; install one (Debian: fonts-dejavu-core), or turn the \
                    SVG files into PDF where there is one"
            .to_owned());
    }
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let drawings: Vec<(String, String)> = files
        .iter()
        .filter_map(|file| {
            let stem = file.name.strip_suffix(".svg")?;
            Some((stem.to_owned(), String::from_utf8_lossy(&file.bytes).into_owned()))
        })
        .collect();
    for (stem, svg) in drawings {
        let tree = Tree::from_str(&svg, &options).map_err(|error| format!("{stem}.svg: {error}"))?;
        let pdf = svg2pdf::to_pdf(&tree, ConversionOptions::default(), PageOptions::default());
        let bytes = pdf.map_err(|error| format!("{stem}.svg: {error}"))?;
        files.push(Exported { name: format!("{stem}.pdf"), bytes });
    }
    Ok(())
}
